"""P3: queue pull requests in the order in which people asked, also while GitHub's reads lag or fail.

People ask by a label, a command, GitHub's auto-merge, or a call of the API or a page. What they do to a pull request
that waits outside its queue may make it ready. IMQ repeats a read that failed, or that lags, after seconds. Until then,
and while another process answers the earlier request, a later one of the same base branch waits: otherwise it would
land first. A killed process leases its job until the lease ends, and no process can tell a killed one from a slow one.
Such waits last a minute at most: no request stops its queue (P5). After that the earlier request keeps its rank, but an
entry that is being processed by then remains the front. A request that a rate limit delays for longer counts for no
other, and neither does one that waits behind it. A hotfix comes before all others, so it waits for a request alone that
may queue a hotfix, too.

The first request is that of the first stored job: GitHub promises no order of deliveries, and its times have whole
seconds. A comment's webhook and a bulk call name no base branch, so they count for every branch of their repository.
A single call has no job: it waits before it answers, for 20 s at most. Then it fails, and its caller may repeat it.
"""

from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime, timedelta
from functools import partial
from typing import TypeVar

from queue_engine.admission.case import InOrder
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.tasks import KeyOrder
from queue_engine.core.jobs.job import Job, JobStatus
from queue_engine.core.timing import backoff
from queue_engine.domain.errors import RequestOrderError
from queue_engine.domain.known_facts import KEPT, PullRequestState, of_pull
from queue_engine.domain.model import EntryOrder, Repository
from queue_engine.domain.policy import GithubMergePolicy, has_label
from queue_engine.domain.webhooks import WEBHOOK_JOB, RequestRetry
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction

EARLIER_REQUEST = "earlier_request"
"""The reason of a hold, which the job of a request counts, while an earlier request is answered."""

BULK_CALL = "bulk_enqueue"
"""Kind of the job that queues one pull request of a bulk call."""


_AGAIN = timedelta(seconds=1)
"""When IMQ reads again whether an earlier request is answered."""

_MOST_WAITS = 60
"""How often it does so: twice the lease of a killed process."""

_MOST_CALL_WAITS = 20
"""How often a call does so: hosts end a call without an answer after 30 s."""

_SOON = max(backoff.longest(backoff.REQUEST, 2), backoff.longest(backoff.OUTDATED, 3))
"""A job that is tried again by then has not given up: three waits after failures, four after reads that lag."""

_UNDER_WAY = 1000
"""So many answered requests IMQ remembers at least until their jobs are stored as done."""

_READ_AT_ONCE = 20
"""So many earlier jobs are read at once: the first one mostly decides, and a thousand may wait behind it."""

_MAY_COMPLETE = frozenset({"consent", "review"})
"""Kinds of webhooks after which a pull request outside its queue may lack nothing."""

_T = TypeVar("_T")


def call_delivery(job: Job) -> str:
    """Return the id by which the events of a bulk call's job are found."""
    return f"bulk:{job.id}"


def attempt_of(job: Job) -> RequestRetry:
    """Return what a job adds to its request; limits, failures and killed workers count as no wait."""
    return RequestRetry(
        order=job.seq,
        stored_at=job.created_at,
        arrived_at=job.created_at if job.claims > 1 else None,
        awaited=job.holds.get(EARLIER_REQUEST, 0),
    )


class RequestOrder:
    """Lets the requests that one process answers wait for earlier ones, of this process and of others."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._line = KeyOrder()
        self._answered: deque[int] = deque(maxlen=_UNDER_WAY)
        self._waiting: dict[int, Callable[[RequestRetry], Awaitable[None]]] = {}

    @contextmanager
    def enter(self, repository: Repository, attempt: RequestRetry) -> Iterator[InOrder]:
        """Join the requests of a repository under way here, before any read; gives what waits for the earlier ones."""
        with self._line.enter(repository.id, attempt.order) as earlier_here:
            in_order = self.of(repository, attempt)

            async def after_earlier(branch: str, policy: Policy, order: EntryOrder) -> None:
                await earlier_here()
                await in_order(branch, policy, order)

            yield after_earlier
            self._answered.append(attempt.order)

    def of(self, repository: Repository, attempt: RequestRetry, *, age: timedelta | None = None) -> InOrder:
        """Return what raises RequestOrderError while a request stored before this one is not answered.

        One of this `age` or older does not count.
        """

        async def in_order(branch: str, policy: Policy, order: EntryOrder) -> None:
            await self._await(repository, branch, policy, order, age, attempt)

        return in_order

    async def await_again(self, attempt: RequestRetry) -> None:
        """Raise RequestOrderError where this request has waited here and has to wait on: without a read of GitHub."""
        if (waits := self._waiting.pop(attempt.order, None)) is not None:
            await waits(attempt)

    async def call(self, repository: Repository, answer: Callable[[InOrder], Awaitable[_T]]) -> _T:
        """Answer a call after the requests that were stored before it. Raises RequestOrderError after 20 s."""
        async with self._engine.store.reading() as tx:
            attempt = RequestRetry(order=1 + await tx.jobs.newest())
        for _ in range(_MOST_CALL_WAITS):
            with suppress(RequestOrderError):
                await self.await_again(attempt)
                return await answer(self.of(repository, attempt, age=_MOST_WAITS * _AGAIN))
            await self._engine.clock.sleep(_AGAIN)
        raise RequestOrderError("an earlier request is answered first", retry_after=_AGAIN)

    async def _await(
        self,
        repository: Repository,
        branch: str,
        policy: Policy,
        order: EntryOrder,
        age: timedelta | None,
        attempt: RequestRetry,
        *,
        began: datetime | None = None,
    ) -> None:
        now = self._engine.clock.now()
        began = began or now
        if attempt.awaited >= _MOST_WAITS or now - began >= _MOST_WAITS * _AGAIN:
            return
        since = None if age is None else now - age
        fields = {"kind": ("labeled", "consent", "comment", "review"), "branch": (branch,)}
        processes, after, waits = {WEBHOOK_JOB: f"{repository.id}:", BULK_CALL: ""}, 0, False
        async with self._engine.store.reading() as tx:
            while not waits and (
                found := await tx.jobs.unanswered_before(
                    attempt.order, processes, fields, due=now + _SOON, after=after, most=_READ_AT_ONCE
                )
            ):
                after = found[-1].seq
                counting = [job for job in found if self._counts(job, repository, since)]
                for job in await _hotfixes(tx, repository, counting, policy, now) if order.hotfix else counting:
                    waits = waits or await _asks(tx, job, branch, policy)
        if waits:
            while len(self._waiting) >= _UNDER_WAY:
                del self._waiting[next(iter(self._waiting))]
            self._waiting[attempt.order] = partial(self._await, repository, branch, policy, order, age, began=began)
            raise RequestOrderError("an earlier request is answered first", retry_after=_AGAIN)

    def _counts(self, job: Job, repository: Repository, since: datetime | None) -> bool:
        """Whether a job is of this repository, not too old, and not answered in this run of this process."""
        here = job.status is JobStatus.IN_PROGRESS and job.owner == self._engine.owner and job.seq in self._answered
        return not here and job.request["repository_id"] == repository.id and (since is None or job.created_at > since)


async def _hotfixes(
    tx: Transaction, repository: Repository, found: Sequence[Job], policy: Policy, now: datetime
) -> Sequence[Job]:
    """Return the jobs that may queue a hotfix: by a revert, or by a label that their pull request may have."""
    labels = [each.label for each in policy.priority.labels if each.hotfix]
    subjects = {job.seq: of_pull(_number_of(job)) for job in found} if labels else {}
    known = await tx.known.about(repository.id, [*subjects.values()], since=now - KEPT) if subjects else {}

    def may_be(job: Job) -> bool:
        if any("revert" in line.casefold() for line in job.request.get("commands", ())):
            return True
        facts = known.get(subjects.get(job.seq, ""), ())
        shown = [each.statement.labels for each in facts if isinstance(each.statement, PullRequestState)]
        return bool(labels) and (not shown or any(has_label(each, labels) for each in shown))

    return [job for job in found if may_be(job)]


def _number_of(job: Job) -> int:
    return int(job.request["item"]["number"] if job.kind == BULK_CALL else job.request["number"])


async def _asks(tx: Transaction, job: Job, branch: str, policy: Policy) -> bool:
    """Whether a job may let a pull request join this queue, and has not done so."""
    asked = job.request
    if job.kind == BULK_CALL or asked["kind"] == "comment":
        asks = asked.get("joins", job.kind == BULK_CALL)
    elif asked["kind"] == "labeled":
        asks = has_label({asked["label"]}, policy.trigger_labels)
    else:
        queues = policy.auto_merge is GithubMergePolicy.QUEUE
        asks = asked.get("joins") or (queues and asked.get("action") == "auto_merge_enabled")
    if not asks and asked["kind"] not in _MAY_COMPLETE:
        return False
    entry = await tx.entries.find(asked["repository_id"], _number_of(job))
    if entry is not None and entry.is_ready:
        return bool(asks) and entry.delivery != asked.get("delivery", call_delivery(job))
    return bool(asks) or (entry is not None and entry.base_branch == branch)
