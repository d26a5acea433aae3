"""Advance each queue that is due: every interval, and at once after a wake-up.

A worker leases a queue, then advances it. The number of queues under way has a limit, for all, for each repository and
for each installation. So a busy or slow repository leaves room for others.
"""

from collections.abc import Callable
from datetime import datetime
from functools import partial

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.lease import kept
from queue_engine.core.concurrency.pool import Pool
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.domain.errors import GitHubError, RateLimitError
from queue_engine.domain.model import Queue
from queue_engine.effects.context import Engine
from queue_engine.executor.pass_batch import PassBatch
from queue_engine.executor.pass_errors import LeaseLost, on_error
from queue_engine.executor.queue_pass import QueuePass
from queue_engine.executor.trains.train_pass import TrainPass, TrainsUnavailable
from queue_engine.planner.github_outage import retry_at
from queue_engine.store import WakeupKind

_log = structlog.get_logger("imq.processor")


async def advance(engine: Engine, queue: Queue, held: Callable[[], bool]) -> datetime | None:
    """Advance a leased queue until it has to wait; returns when it is due again, None if only an event can wake it.

    `held` returns whether this worker still has the lease. Raises LeaseLost if it has not.
    """
    try:
        policy = await engine.policies.of(queue.repository, queue.base_branch)
    except RateLimitError as limited:  # It changes nothing for any entry, so none is read.
        return retry_at(limited, engine.clock.now())
    except GitHubError as error:
        return await QueuePass(engine, queue, held, Policy()).on_unreadable_policy(error)
    once = False
    if policy.trains.enabled or queue.in_trains:
        trains = TrainPass(engine, queue, held, policy)
        try:
            if policy.trains.enabled or policy.fault is not None:
                return await trains.run()
            if (due := await trains.leave()) is not None:
                return due
        except TrainsUnavailable as unavailable:
            once = unavailable.once
    return await QueuePass(engine, queue, held, policy, once=once).run()


class Processor:
    """Advances due queues, at most `concurrency` at once.

    At most half of them are of one repository, and at most three quarters, rounded, of one installation.
    """

    def __init__(self, engine: Engine, *, concurrency: int = 8) -> None:
        self._engine = engine
        self._of_repository = max(1, concurrency // 2)
        self._of_installation = max(1, (concurrency * 3 + 2) // 4)
        self._under_way: set[int] = set()
        self._batch = PassBatch(engine)
        self._pool = Pool(concurrency, done=partial(engine.wakeup.notify, WakeupKind.QUEUES))
        self._recalls = Pool(1, done=partial(engine.wakeup.notify, WakeupKind.QUEUES))
        """Beside the passes, so that none of them waits for it."""

    async def start_due(self) -> bool:
        """Start to advance due queues, as many as there is room for, and release idle ones; whether any was due."""
        if self._pool.free <= 0 or self._engine.ending.is_set():
            return False
        recalling = self._batch.has_unread() and self._recalls.free > 0
        if recalling:
            self._recalls.start(self._batch.recall_policies())
        now = self._engine.clock.now()
        async with self._engine.store.transaction() as tx:
            queues = await tx.queues.claim_due(
                owner=self._engine.owner,
                now=now,
                lease=self._engine.lease,
                limit=self._pool.free,
                of_repository=self._of_repository,
                of_installation=self._of_installation,
            )
            # A lease may end while its pass still runs here: then the claim renewed it, and no second pass starts.
            queues = tuple(queue for queue in queues if queue.id not in self._under_way)
            idle = await self._batch.release_idle(tx, queues, self._under_way)
        for queue in queues:
            if queue.id not in idle:
                self._under_way.add(queue.id)
                self._pool.start(self._advance(queue))
        return bool(queues or idle or recalling)

    async def run_due(self) -> bool:
        """Advance due queues and wait for their passes; whether any was due."""
        started = await self.start_due()
        await self.drain()
        return started

    async def next_due(self) -> datetime | None:
        """When the next queue is due."""
        async with self._engine.store.reading() as tx:
            return await tx.queues.next_due()

    async def drain(self) -> None:
        """Wait for the passes under way."""
        await self._pool.join()
        await self._recalls.join()

    async def cancel(self) -> None:
        """Cancel the passes under way at their next await; the next process continues from the stored state."""
        await self._pool.cancel()
        await self._recalls.cancel()

    async def _advance(self, queue: Queue) -> None:
        try:
            with working(RequestPriority.NOW, holder=f"queue:{queue.id}"):
                await self._pass(queue)
        finally:
            self._under_way.discard(queue.id)

    async def _pass(self, queue: Queue) -> None:
        engine = self._engine

        async def renew(until: datetime) -> bool:
            async with engine.store.transaction() as tx:
                return await tx.queues.renew(queue.id, engine.owner, until)

        failed = True
        try:
            async with kept(engine.clock, engine.lease, renew) as held:
                due = await advance(engine, queue, lambda: held.still)
        except LeaseLost:
            _log.warning("lease_lost", queue=queue.id)
            return
        except Exception as error:
            _log.exception("pass_failed", queue=queue.id, repository=queue.repository.full_name)
            due = await on_error(engine, queue, error)
        else:
            failed = False
        async with engine.store.transaction() as tx:
            if queue.errors and not failed:
                await tx.queues.clear_errors(queue.id)
            await tx.queues.release(
                queue.id, engine.owner, due_at=due, wake_count=queue.wake_count, now=engine.clock.now()
            )
