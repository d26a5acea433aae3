"""Admit held pull requests to a full queue in the order of arrival, as places become free.

Places are given when they become free. In case no event reports one, each held pull request retries in the overload
series as well, which asks GitHub nothing while the queue is full. One that cannot be judged now steps back behind the
others, and none waits longer than its repository's limit (P5).
"""

from dataclasses import replace

import structlog

from queue_engine.admission.admit import admit
from queue_engine.admission.case import Case
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.rejection import refuse
from queue_engine.admission.revalidate import Push
from queue_engine.core.concurrency.key_order import KeyOrder
from queue_engine.core.jobs.job_store import Job
from queue_engine.core.jobs.outcomes import Hold
from queue_engine.core.observability import trace
from queue_engine.core.timing.backoff import OVERLOAD, wait
from queue_engine.domain.errors import GitHubError, NotFound, RateLimitError, StaleRead, StaleRecord
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.policy import Policy, PushPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.effects.labels import effective_labels
from queue_engine.effects.queue_depth import find_held
from queue_engine.effects.record import wake_waiting
from queue_engine.rules.consent import consent_lost
from queue_engine.rules.eligibility import blocked_by_config, may_queue
from queue_engine.store.held import HeldPullRequest
from queue_engine.store.outbox.outbox import OutboxKind

_log = structlog.get_logger("imq.held")


class HeldPullRequests:
    """Admits held pull requests to free places, and removes those that nobody wants to queue any more."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._serving = KeyOrder()

    async def retry_enqueue(self, job: Job) -> Hold | None:
        """Enqueue a held pull request if it is the first; else retry after 30, 60, 120, 240, 300 seconds.

        Raises RateLimitError.
        """
        repository_id, number = job.request["repository_id"], job.request["number"]
        waiting = await self._find(repository_id, number)
        if waiting is None:
            return None
        async with self._engine.store.reading() as tx:
            ahead = await tx.held.ahead(waiting.queue_id, repository_id, number)
        if ahead == 0:
            await self._serve(waiting.queue_id)
            if await self._find(repository_id, number) is None:
                return None
        if await self._waited_too_long(waiting):
            return None
        return Hold(wait(OVERLOAD, job.claims, random=self._engine.random))

    async def admit_waiting(self, job: Job) -> None:
        """Admit as many held pull requests as there are places. Raises RateLimitError."""
        await self._serve(job.request["queue_id"])

    async def revalidate(self, repository: Repository, number: int, *, push: Push | None = None) -> bool:
        """Something about a pull request changed: if it is held, find out whether it is still wanted as it was.

        False when it is not held. Raises GitHubError, and StaleRecord when it got its place in this moment.
        """
        waiting = await self._find(repository.id, number)
        if waiting is None:
            return False
        pull = await self._engine.github.pull_request(repository, number)
        queue = await self._queue(waiting)
        pull = await self._effective_labels(queue, waiting, pull)
        if push is None or not await self._wait_on(queue, waiting, pull, push):
            await self._still_wanted(queue, waiting, pull)
        return True

    async def _wait_on(self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest, push: Push) -> bool:
        """Hold the new head instead, if only this push speaks against it and the pusher may queue; else False."""
        policy = await self._engine.policies.of(queue.repository, queue.base_branch)
        reason = _consent_lost(queue, waiting, pull, policy)
        if reason is not Reason.HEAD_CHANGED or policy.on_push is not PushPolicy.REQUEUE:
            return False
        if pull.head_sha != push.head_sha:
            return True
        permission = await self._engine.github.permission(queue.repository, push.by)
        if may_queue(policy, push.by, permission) is not None:
            return False
        case = Case(queue.repository, pull.number, delivery=waiting.delivery)
        request = EnqueueRequest(case, push.by, pull.head_sha, gives_consent=False)
        await admit(self._engine, request, Snapshot(pull, permission))
        return True

    async def _effective_labels(self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest) -> PullRequest:
        policy = await self._engine.policies.of(queue.repository, queue.base_branch)
        return await effective_labels(self._engine.store, queue.repository, pull, waiting.trusted_labels, policy)

    async def _serve(self, queue_id: int) -> None:
        with self._serving.enter(queue_id) as turn:
            await turn()
            async with self._engine.store.reading() as tx:
                waiting = await tx.held.count(queue_id)
            for _ in range(waiting):
                first = await self._first(queue_id)
                if first is None:
                    return
                story = {} if first.delivery is None else {"delivery": first.delivery}
                with trace.continued(first.trace, "place"), structlog.contextvars.bound_contextvars(**story):
                    await self._admit(first)

    async def _admit(self, waiting: HeldPullRequest) -> None:
        queue, github = await self._queue(waiting), self._engine.github
        try:
            by = waiting.queued_by
            taken = await github.snapshot(queue.repository, waiting.number, login=by, head_sha=waiting.head_sha)
            pull = await self._effective_labels(queue, waiting, taken.pull)
            if not await self._still_wanted(queue, waiting, pull):
                return
            case = Case(queue.repository, waiting.number, delivery=waiting.delivery)
            request = EnqueueRequest(case, by, waiting.head_sha, gives_consent=False)
            await admit(self._engine, request, replace(taken, pull=pull))
        except (RateLimitError, StaleRead):
            raise
        except GitHubError as error:
            _log.warning("held_unreadable", number=waiting.number, error=f"{type(error).__name__}: {error.message}")
            async with self._engine.change() as change:
                if isinstance(error, NotFound):
                    await change.tx.held.remove(waiting.repository_id, waiting.number)
                else:
                    await change.tx.held.step_back(waiting.repository_id, waiting.number)

    async def _still_wanted(self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest) -> bool:
        """Whether consent to what was held still stands; if not it leaves the line, and people read why."""
        policy = await self._engine.policies.of(queue.repository, queue.base_branch)
        reason = _consent_lost(queue, waiting, pull, policy)
        if reason is None:
            return True
        await self._reject(queue, waiting, pull, reason, policy)
        return False

    async def _waited_too_long(self, waiting: HeldPullRequest) -> bool:
        """Whether it has waited for as long as it may; then it is let go, and people read why."""
        queue, now = await self._queue(waiting), self._engine.clock.now()
        try:
            policy = await self._engine.policies.of(queue.repository, queue.base_branch)
            if now - waiting.at < policy.hold_timeout:
                return False
            pull = await self._engine.github.pull_request(queue.repository, waiting.number)
        except GitHubError as error:
            _log.warning("held_unreadable", number=waiting.number, error=f"{type(error).__name__}: {error.message}")
            return False
        return await self._reject(queue, waiting, pull, Reason.HOLD_TIMED_OUT, policy)

    async def _reject(
        self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest, reason: Reason, policy: Policy
    ) -> bool:
        """Let it go, unless somebody queued it again; whether it went. Raises StaleRecord when it got its place."""
        by, delivery = waiting.queued_by, waiting.delivery
        async with self._engine.change() as change:
            standing = await find_held(change.tx, waiting.repository_id, waiting.number)
            if standing is None and await change.tx.entries.stands(waiting.repository_id, waiting.number):
                raise StaleRecord(f"pull request {waiting.number} got its place")
            if standing != waiting:
                return False
            if await change.tx.outbox.stands(OutboxKind.COMMENT, waiting.repository_id, waiting.number):
                bar = blocked_by_config(pull, policy)
                detail = bar.detail if bar is not None and bar.reason is reason else None
                await refuse(change, queue, pull, reason, policy, by=by, delivery=delivery, detail=detail)
            else:
                # It never waited in public: the API call that requested it failed before it set the label.
                await change.tx.held.remove(waiting.repository_id, waiting.number)
                await wake_waiting(change.tx, queue.id, change.now)
        return True

    async def _first(self, queue_id: int) -> HeldPullRequest | None:
        """Who is first in line, if there is a place."""
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.get(queue_id)
        assert queue is not None
        most = (await self._engine.policies.of(queue.repository, queue.base_branch)).max_depth
        async with self._engine.store.reading() as tx:
            if most and await tx.entries.count(queue_id) >= most:
                return None
            return await tx.held.next(queue_id)

    async def _find(self, repository_id: int, number: int) -> HeldPullRequest | None:
        async with self._engine.store.reading() as tx:
            return await tx.held.find(repository_id, number)

    async def _queue(self, waiting: HeldPullRequest) -> Queue:
        async with self._engine.store.reading() as tx:
            queue = await tx.queues.get(waiting.queue_id)
        assert queue is not None
        return queue


def _consent_lost(queue: Queue, waiting: HeldPullRequest, pull: PullRequest, policy: Policy) -> Reason | None:
    """The reason for which what was held is no longer wanted, or None."""
    return consent_lost(
        pull,
        base_branch=queue.base_branch,
        head=waiting.head_sha,
        policy=policy,
        queued_at=waiting.at,
        queued_by=waiting.queued_by,
        trusted_labels=waiting.trusted_labels,
    )
