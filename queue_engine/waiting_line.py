"""The line outside of a full queue: who is held joins in the order of arrival, by itself.

It is served when a place frees. In case nobody tells so, everybody in it knocks again in the overload series as well,
which asks GitHub nothing while the queue is full. Whoever cannot be judged now steps back behind the others, and nobody
waits longer than its repository's limit (P5).
"""

from dataclasses import replace

import structlog

from queue_engine.admission import Knock, let_in
from queue_engine.consent import lapsed
from queue_engine.core import trace
from queue_engine.core.backoff import OVERLOAD, wait
from queue_engine.core.jobs import Job
from queue_engine.core.line import Line
from queue_engine.core.outcomes import Hold
from queue_engine.door import barred, may_queue
from queue_engine.engine import Engine
from queue_engine.errors import GitHubError, NotFound, OutdatedRead, RateLimited, StaleVersion
from queue_engine.facts import PullRequest, Snapshot
from queue_engine.journal import call_waiting
from queue_engine.model import Queue, Repository
from queue_engine.places import still_waiting
from queue_engine.policy import OnPush, Policy
from queue_engine.reasons import Reason
from queue_engine.refusing import refuse
from queue_engine.review import Push
from queue_engine.store.held import HeldPullRequest
from queue_engine.store.outbox import LetterKind
from queue_engine.wish import as_wished

_log = structlog.get_logger("imq.waiting_line")


class WaitingLine:
    """Lets those in who wait for a place, and lets those go who want none any more."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._serving = Line()

    async def knock_again(self, job: Job) -> Hold | None:
        """One that is held knocks if it is the first; then again after 30, 60, 120, 240, 300 seconds until it is gone.

        Raises RateLimited.
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

    async def fill_places(self, job: Job) -> None:
        """A place is free: as many are let in as there are places. Raises RateLimited."""
        await self._serve(job.request["queue_id"])

    async def review(
        self, repository: Repository, number: int, *, push: Push | None = None, called_off: bool = False
    ) -> bool:
        """Something about a pull request changed: if it is held, find out whether it is still wanted as it was.

        `called_off` says that a person is known to have taken its label off. False when it is not held. Raises
        GitHubError, and StaleVersion when it got its place in this moment.
        """
        waiting = await self._find(repository.id, number)
        if waiting is None:
            return False
        pull = await self._engine.github.pull_request(repository, number)
        queue = await self._queue(waiting)
        pull = await self._as_wished(queue, waiting, pull, called_off=called_off)
        if push is None or not await self._wait_on(queue, waiting, pull, push):
            await self._still_wanted(queue, waiting, pull)
        return True

    async def _wait_on(self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest, push: Push) -> bool:
        """Whether nothing but this push speaks against it, and whoever pushed may have the new head wait instead."""
        policy = await self._engine.policies.of(queue.repository, queue.base_branch)
        reason = _lapsed(queue, waiting, pull, policy)
        if reason is not Reason.HEAD_CHANGED or policy.on_push is not OnPush.REQUEUE:
            return False
        if pull.head_sha != push.head_sha:
            return True
        permission = await self._engine.github.permission(queue.repository, push.by)
        if may_queue(policy, push.by, permission) is not None:
            return False
        request = Knock(queue.repository, pull.number, push.by, pull.head_sha, delivery=waiting.delivery, anew=False)
        await let_in(self._engine, request, Snapshot(pull, permission), by=push.by)
        return True

    async def _as_wished(
        self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest, *, called_off: bool = False
    ) -> PullRequest:
        policy = await self._engine.policies.of(queue.repository, queue.base_branch)
        since = None if called_off else waiting.at
        return await as_wished(
            self._engine.github, self._engine.store, queue.repository, pull, waiting.vouched, policy, since=since
        )

    async def _serve(self, queue_id: int) -> None:
        with self._serving.stand(queue_id) as turn:
            await turn()
            async with self._engine.store.reading() as tx:
                waiting = await tx.held.count(queue_id)
            for _ in range(waiting):
                first = await self._first(queue_id)
                if first is None:
                    return
                story = {} if first.delivery is None else {"delivery": first.delivery}
                with trace.continued(first.trace, "place"), structlog.contextvars.bound_contextvars(**story):
                    await self._let_in(first)

    async def _let_in(self, waiting: HeldPullRequest) -> None:
        queue, github = await self._queue(waiting), self._engine.github
        try:
            by = waiting.queued_by
            taken = await github.snapshot(queue.repository, waiting.number, login=by, head_sha=waiting.head_sha)
            pull = await self._as_wished(queue, waiting, taken.pull)
            if not await self._still_wanted(queue, waiting, pull):
                return
            head, delivery = waiting.head_sha, waiting.delivery
            request = Knock(queue.repository, waiting.number, by, head, delivery=delivery, anew=False)
            await let_in(self._engine, request, replace(taken, pull=pull), by=by)
        except (RateLimited, OutdatedRead):
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
        reason = _lapsed(queue, waiting, pull, policy)
        if reason is None:
            return True
        await self._let_go(queue, waiting, pull, reason, policy)
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
        return await self._let_go(queue, waiting, pull, Reason.HOLD_TIMED_OUT, policy)

    async def _let_go(
        self, queue: Queue, waiting: HeldPullRequest, pull: PullRequest, reason: Reason, policy: Policy
    ) -> bool:
        """Let it go, unless somebody queued it again; whether it went. Raises StaleVersion when it got its place."""
        by, delivery = waiting.queued_by, waiting.delivery
        async with self._engine.change() as change:
            standing = await still_waiting(change.tx, waiting.repository_id, waiting.number)
            if standing is None and await change.tx.entries.stands(waiting.repository_id, waiting.number):
                raise StaleVersion(f"pull request {waiting.number} got its place")
            if standing != waiting:
                return False
            if await change.tx.outbox.stands(LetterKind.COMMENT, waiting.repository_id, waiting.number):
                bar = barred(pull, policy)
                detail = bar.detail if bar is not None and bar.reason is reason else None
                await refuse(change, queue, pull, reason, policy, by=by, delivery=delivery, detail=detail)
            else:
                # It never waited in public: whoever asked for it by the API did not get as far as its label.
                await change.tx.held.remove(waiting.repository_id, waiting.number)
                await call_waiting(change.tx, queue.id, change.now)
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


def _lapsed(queue: Queue, waiting: HeldPullRequest, pull: PullRequest, policy: Policy) -> Reason | None:
    """The reason for which what was held is no longer wanted, or None."""
    return lapsed(
        pull,
        base_branch=queue.base_branch,
        head=waiting.head_sha,
        policy=policy,
        queued_at=waiting.at,
        queued_by=waiting.queued_by,
        vouched=waiting.vouched,
    )
