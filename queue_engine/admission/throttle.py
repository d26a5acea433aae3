"""Throttle people without permission: their events cost ever fewer requests to GitHub (P7).

Everybody may comment on a public repository and review its pull requests. IMQ ignores a person whose last requests
lacked permission, for a while that doubles each time. So a person costs at most a dozen requests an hour.

Without this, four accounts that wrote 80 comments a minute each delayed a landing by 605 s; with it, by 0.0 s
(`make bench`, row `strangers`).

A label of a throttled person becomes a job of its own, which waits until the throttle ends. The jobs of one person run
one after another; labels of other people do not wait for them. In the end IMQ refuses and removes each label. If the
person has permission after all, IMQ judges all waiting labels at once. docs/threat-model.md has the bound.

The reconciler ignores a label that waits so.
"""

import sys
from contextlib import AbstractContextManager
from datetime import datetime, timedelta

import structlog

from queue_engine.admission.request_order import EARLIER_REQUEST
from queue_engine.config.model import Policy
from queue_engine.core.concurrency.tasks import KeyOrder, OrderWait
from queue_engine.core.jobs.job import Job, JobStatus
from queue_engine.core.timing.backoff import Backoff, no_jitter, wait
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from queue_engine.domain.reasons import SENDER_REASONS
from queue_engine.domain.webhooks import LabelRequest, RequestRetry
from queue_engine.effects.context import Change, Engine
from queue_engine.rules.eligibility import Answer, Ignore, Reject, may_queue
from queue_engine.store import Transaction
from queue_engine.store.rejections import Throttle

_WAITS = Backoff(base=timedelta(seconds=30), maximum=timedelta(hours=1), jitter=0)
"""How long IMQ ignores a person after each request without permission beyond the free ones."""

_FREE = 3
"""How many requests without permission have no wait."""

KEPT = timedelta(days=1)
"""How long without such a request until the count starts again."""

_log = structlog.get_logger("imq.throttle")


def requested_by(login: str) -> str:
    """Return the key that counts requests which everybody may make: no login has a space.

    So a maintainer whom GitHub shows as a stranger may ask often, and can still pause the queue.
    """
    return f"{login} asks"


def labeling(login: str) -> str:
    """Return the key that counts refused labels. Refused commands of a writer do not throttle the writer's labels."""
    return f"{login} labels"


def ignored_until(throttle: Throttle) -> datetime:
    """Compute when the throttle ends."""
    waits = throttle.times - _FREE
    return throttle.at if waits <= 0 else throttle.at + wait(_WAITS, waits - 1, random=no_jitter)


async def is_throttled(engine: Engine, repository: Repository, login: str) -> bool:
    """Return whether IMQ ignores this person's requests now."""
    if await throttled_until(engine, repository, login) is None:
        return False
    _log.debug("ignored", repository=repository.full_name, by=login)
    return True


async def throttled_until(engine: Engine, repository: Repository, login: str) -> datetime | None:
    """Return when this person's throttle ends; None if there is none."""
    throttle = await engine.store.read(lambda tx: tx.throttles.find(repository.id, login))
    until = None if throttle is None else ignored_until(throttle)
    return until if until is not None and engine.clock.now() < until else None


async def count_without_right(change: Change, repository: Repository, login: str) -> None:
    """Count a request without permission."""
    before = await change.tx.throttles.find(repository.id, login)
    times = 0 if before is None or before.at < change.now - KEPT else before.times
    await change.tx.throttles.put(repository.id, login, Throttle(times + 1, change.now))


async def is_outsider(engine: Engine, repository: Repository, login: str) -> bool:
    """Whether a person may only read, and nothing lets them queue: one request, counted. Raises GitHubError."""
    if await engine.github.permission(repository, login) not in (Permission.NONE, Permission.READ):
        return False
    if await engine.policies.admit_readers(repository, login):
        return False
    await engine.write(lambda change: count_without_right(change, repository, login))
    _log.info("outsider", repository=repository.full_name, by=login)
    return True


THROTTLED_LABEL_JOB = "throttled_label"
"""Kind of the job that judges a throttled person's label. Its request is the label's webhook."""

_LAST = sys.maxsize
"""The number of such a label in the order of requests: no other request waits for it, see
`queue_engine.admission.request_order`."""


class LabelThrottle:
    """Decides which labels IMQ judges later."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._lines = KeyOrder()
        self._proven: set[tuple[int, str]] = set()
        """People whose last label was not refused: their labels are judged concurrently."""

    def enter(self, webhook: LabelRequest) -> AbstractContextManager[OrderWait]:
        """Join the order of labels of the same person."""
        return self._lines.enter(_person(webhook), webhook.attempt.order)

    async def put_off(self, webhook: LabelRequest, in_order: OrderWait) -> bool:
        """Store a job for the label and return True, if its sender is throttled.

        `in_order` waits for this person's earlier labels. The first label shows whether the person lacks permission;
        then each waits for all earlier ones, so that labels set at once are counted one by one.
        """
        engine, repository = self._engine, webhook.repository
        person, by = _person(webhook), webhook.sender or ""
        if person not in self._proven:
            await in_order(1)
        until = None
        if await self._counted(webhook):
            self._proven.discard(person)
            await in_order()
            until = await throttled_until(engine, repository, labeling(by))
        if until is not None:
            await engine.write(lambda change: _put_off(change, webhook, until))
            label = {"repository": repository.full_name, "number": webhook.number, "until": until.isoformat()}
            _log.info("label_put_off", by=by, **label)
        return until is not None

    async def judged(self, webhook: LabelRequest) -> None:
        """Remember, after a label was judged, whether its sender lacks permission."""
        person = _person(webhook)
        if person not in self._proven and not await self._counted(webhook):
            self._proven.add(person)

    async def _counted(self, webhook: LabelRequest) -> bool:
        async with self._engine.store.reading() as tx:
            return await tx.throttles.find(webhook.repository_id, labeling(webhook.sender or "")) is not None


def _person(webhook: LabelRequest) -> tuple[int, str]:
    return webhook.repository_id, (webhook.sender or "").casefold()


async def _put_off(change: Change, webhook: LabelRequest, until: datetime) -> None:
    """Store the job of a label, in place of a job for this person's earlier label on the pull request."""
    process = _process_of(webhook.repository_id, webhook.sender or "")
    earlier = [
        job.id
        for job in await change.tx.jobs.unfinished(process)
        if job.status is JobStatus.PENDING and job.request.get("number") == webhook.number
    ]
    await change.tx.jobs.delete(earlier)
    await change.tx.jobs.enqueue(
        kind=THROTTLED_LABEL_JOB,
        request=webhook.model_dump(mode="json", exclude_none=True),
        process_id=process,
        now=change.now,
        not_before=until,
    )


async def put_off_again(engine: Engine, webhook: LabelRequest) -> timedelta | None:
    """Return how much longer a throttled label waits; None if it is judged now."""
    until = await throttled_until(engine, webhook.repository, labeling(webhook.sender or ""))
    return None if until is None else until - engine.clock.now()


def webhook_of(job: Job) -> LabelRequest:
    """Read the webhook of a throttled label from its job; it is last in the order of requests."""
    attempt = RequestRetry(order=_LAST, awaited=job.holds.get(EARLIER_REQUEST, 0))
    return LabelRequest.model_validate(job.request).model_copy(update={"attempt": attempt})


async def queued_by_others(engine: Engine, webhook: LabelRequest) -> bool:
    """Return whether the pull request is queued: another person has queued it meanwhile."""
    return await engine.store.read(lambda tx: tx.entries.is_queued(webhook.repository_id, webhook.number))


async def numbers_put_off(tx: Transaction, repository_id: int) -> set[int]:
    requests = await tx.jobs.unfinished_requests(THROTTLED_LABEL_JOB, _process_of(repository_id, ""))
    return {int(request["number"]) for request in requests}


async def count_label(change: Change, repository: Repository, by: str | None, answer: Answer) -> None:
    """Count a label that was refused because its sender may not queue; any other answer ends the throttle."""
    if by and isinstance(answer, Reject) and answer.reason in SENDER_REASONS:
        await count_without_right(change, repository, labeling(by))
    elif by and not isinstance(answer, Ignore) and await change.tx.throttles.clear(repository.id, labeling(by)):
        await change.tx.jobs.hasten(_process_of(repository.id, by), change.now)


async def count_label_gone(
    engine: Engine, repository: Repository, policy: Policy, by: str | None, permission: Permission | None
) -> None:
    """Count a label that was removed before IMQ read it, if its sender may not queue: the read cost a request too."""
    if by and permission is not None and may_queue(policy, by, permission) is not None:
        await engine.write(lambda change: count_without_right(change, repository, labeling(by)))


def _process_of(repository_id: int, login: str) -> str:
    return f"{THROTTLED_LABEL_JOB}:{repository_id}:{login.casefold()}"
