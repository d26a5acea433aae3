"""Advance each queue that is due: every interval, and at once after a wake-up.

A worker leases a queue, then advances it. The number of queues under way has a limit, for all, for each repository and
for each installation. So a busy or slow repository leaves room for others.

A sweep, a restart or a change of shared configuration wakes all queues at once, and most of them wait for a later
instant. These are released many together, without a pass over each, by the decision of a pass
(`queue_engine.planner.queue_plan`).

An unexpected error in a pass is counted and retried within a bound, so that it blocks no queue (P5). The count is
stored with the queue, and survives restarts. When the passes on an entry have failed for `LIMIT`, the entry is dequeued
with `internal_error`, and the next one is processed. A fault of the database does not count.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime, timedelta
from functools import partial

import structlog
from sqlalchemy.exc import SQLAlchemyError

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.concurrency.tasks import Pool, kept
from queue_engine.core.database.outage import fault_of
from queue_engine.core.observability import trace
from queue_engine.core.timing.backoff import Backoff, wait
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import GitHubError, RateLimitError, StaleRecord
from queue_engine.domain.model import Entry, Queue, QueueFront
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Engine
from queue_engine.executor.entry_steps import PassError
from queue_engine.executor.queue_pass import LeaseLost, QueuePass
from queue_engine.planner.github_outage import retry_at
from queue_engine.planner.queue_plan import QueueWait, front_decides, wait_of
from queue_engine.rules.policies import PolicyKey
from queue_engine.store import Transaction, WakeupKind

_log = structlog.get_logger("imq.scheduler")

_AT_MOST = 100
"""Queues in one transaction, which takes some 20 ms: SQLite has one writer."""

_READ_AT_MOST = 500
"""Queues whose policies are recalled at once, after a restart."""

_MOST_BUSY = 5_000
"""Queues that need a pass, remembered so that each is read here once."""

BACKOFF = Backoff(base=timedelta(seconds=5), factor=3, maximum=timedelta(minutes=5))
"""Waits between the passes of a queue whose passes fail."""

LIMIT = timedelta(minutes=10)
"""For how long passes may fail on an entry before it is dequeued."""

_IN_DOUBT = 6
"""How many times longer passes may fail while the answer to a merge request is lost: only a pass finds the outcome."""

_AFTER_A_FAULT = timedelta(seconds=1)
"""When a queue is advanced again after a fault of the database. While the fault lasts nothing can be stored, and the
queue is due when its lease ends."""


async def advance(engine: Engine, queue: Queue, held: Callable[[], bool]) -> datetime | None:
    """Advance a leased queue; returns when it is due again, None if only an event can wake it. Raises LeaseLost."""
    try:
        policy = await engine.policies.of(queue.repository, queue.base_branch)
    except RateLimitError as limited:  # It changes nothing for any entry, so none is read.
        return retry_at(limited, engine.clock.now())
    except GitHubError as error:
        return await QueuePass(engine, queue, held, Policy()).on_unreadable_policy(error)
    return await QueuePass(engine, queue, held, policy).run()


class Scheduler:
    """Advances at most `concurrency` due queues: half of one repository, three quarters of one installation."""

    def __init__(self, engine: Engine, *, concurrency: int = 8) -> None:
        self._engine = engine
        self._of_repository = max(1, concurrency // 2)
        self._of_installation = max(1, (concurrency * 3 + 2) // 4)
        self._under_way: set[int] = set()
        self._releasing: set[int] = set()
        """Those whose pass has ended: no claim may take what PostgreSQL has released before its answer is here."""
        self._batch = PassBatch(engine)
        self._pool = Pool(concurrency, done=partial(engine.wakeup.notify, WakeupKind.QUEUES, ended=True))
        self._recalls = Pool(1, done=partial(engine.wakeup.notify, WakeupKind.QUEUES, ended=True))
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
                without=self._releasing,
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
        return await self._engine.store.read(lambda tx: tx.queues.next_due())

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
            self._releasing.discard(queue.id)

    async def _pass(self, queue: Queue) -> None:
        engine = self._engine

        async def renew(until: datetime) -> bool:
            return await engine.store.write(lambda tx: tx.queues.renew(queue.id, engine.owner, until))

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
        self._releasing.add(queue.id)
        async with engine.store.transaction() as tx:
            if queue.errors and not failed:
                await tx.queues.clear_errors(queue.id)
            await tx.queues.release(
                queue.id, engine.owner, due_at=due, wake_count=queue.wake_count, now=engine.clock.now()
            )


class PassBatch:
    """Releases idle queues, many together; each of the others needs a pass."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._busy: set[int] = set()
        """Due queues that need a pass, and that this process has no room for."""
        self._unread: set[int] = set()
        """Those of them whose policies are not cached."""
        self._recalled: set[int] = set()
        """Queues whose policies were recalled, cached or not, until a pass or a release: once is enough."""

    def has_unread(self) -> bool:
        """Whether `recall_policies` may save some queues their pass."""
        return bool(self._unread)

    async def recall_policies(self) -> None:
        """Cache the policies of due queues with a few statements: after a restart nothing is cached."""
        tried, now = self._busy - self._unread, self._engine.clock.now()
        self._unread.clear()
        async with self._engine.store.reading() as tx:
            queues = await tx.queue_batch.due(now=now, without=tried, at_most=_READ_AT_MOST)
            shared = await tx.queue_batch.shared_generations(queues)
        wanted = {queue.id: _key(queue, shared) for queue in queues}
        # Transactions that found some of them before, or find them meanwhile, must not want them again.
        self._recalled |= wanted.keys()
        recalled = await self._engine.policies.recall(list(wanted.values()))
        cached = {queue_id for queue_id, key in wanted.items() if key in recalled}
        self._unread -= wanted.keys()
        self._busy -= cached
        self._busy |= wanted.keys() - cached

    async def release_idle(self, tx: Transaction, claimed: Sequence[Queue], under_way: Collection[int]) -> set[int]:
        """Release the idle ones of the queues that this transaction claimed, and of the others that are due.

        Returns their ids. Costs one statement if no other queue is due: then a pass over each claimed one is as cheap.
        `under_way` are the queues of passes that still run here.
        """
        now = self._engine.clock.now()
        self._busy.difference_update(queue.id for queue in claimed)
        self._recalled.difference_update(queue.id for queue in claimed)
        if len(self._busy | self._recalled) > _MOST_BUSY:
            self._busy.clear()
            self._recalled.clear()
        others = await tx.queue_batch.lock_due(now=now, without={*self._busy, *under_way}, at_most=_AT_MOST)
        if not others:
            return set()
        policies = await self._policies(tx, [*claimed, *others])
        self._unread.update(queue.id for queue in others if queue.id not in policies.keys() | self._recalled)
        waits = await self._waits(tx, [*claimed, *others], policies, now)
        await tx.queue_batch.release({queue_id: wait.until for queue_id, wait in waits.items()})
        self._busy.update(queue.id for queue in others if queue.id not in waits)
        self._recalled.difference_update(waits)
        return set(waits)

    async def _waits(
        self, tx: Transaction, queues: Sequence[Queue], policies: Mapping[int, Policy], now: datetime
    ) -> dict[int, QueueWait]:
        """Return the waits of the idle ones of these queues, by queue id."""
        if not policies:
            return {}
        judged = [queue for queue in queues if queue.id in policies]
        try:
            entries = await _entries(tx, judged, policies, now)
        except SQLAlchemyError:
            raise
        except Exception:
            # The pass over the queue with the broken entry reports that; the others must not suffer from it (P5).
            return {}
        found = ((queue.id, self._wait(queue, entries.get(queue.id, ()), policies[queue.id], now)) for queue in judged)
        return {queue_id: wait for queue_id, wait in found if wait is not None}

    async def _policies(self, tx: Transaction, queues: Sequence[Queue]) -> dict[int, Policy]:
        """Return the policies of these queues as far as they are cached, by queue id; a pass reads the others."""
        shared = await tx.queue_batch.shared_generations(queues)
        found = dict[int, Policy]()
        for queue in queues:
            policy = self._engine.policies.cached(*_key(queue, shared))
            if policy is not None:
                found[queue.id] = policy
        return found

    def _wait(self, queue: Queue, entries: tuple[Entry, ...], policy: Policy, now: datetime) -> QueueWait | None:
        if queue.in_trains or policy.trains.enabled:
            return None
        try:
            rules = self._engine.github.cached_rules(queue.repository, queue.base_branch)
            return wait_of(queue, entries, policy, rules, now)
        except Exception:
            # A pass meets the same error, and reports and counts it for its own queue alone (P5).
            return None


async def _entries(
    tx: Transaction, queues: Sequence[Queue], policies: Mapping[int, Policy], now: datetime
) -> Mapping[int, tuple[Entry, ...]]:
    """Return the entries on which the waits of these queues depend, by queue id: of most queues the front alone."""
    fronts = await tx.queue_batch.fronts([queue.id for queue in queues])
    found = {queue_id: (front.entry,) for queue_id, front in fronts.items()}
    fuller = [
        queue.id
        for queue in queues
        if queue.id in fronts and not _front_decides(queue, fronts[queue.id], policies[queue.id], now)
    ]
    return {**found, **await tx.entries.of_queues(fuller)} if fuller else found


def _front_decides(queue: Queue, front: QueueFront, policy: Policy, now: datetime) -> bool:
    try:
        return front_decides(queue, front, policy, now)
    except Exception:
        # The judgement of all entries meets the same error.
        return False


def _key(queue: Queue, shared: Mapping[str, int]) -> PolicyKey:
    """Return the key of a queue's policy. `shared` are the generations of shared configuration, by owner."""
    return queue.repository, queue.base_branch, (queue.generation, shared.get(queue.repository.owner.lower(), 0))


async def on_error(engine: Engine, queue: Queue, error: Exception) -> datetime:
    """Count a pass's unexpected error, in the end dequeue or pause; return the next instant. Raises database errors."""
    now = engine.clock.now()
    if fault_of(error) is not None:
        return now + _AFTER_A_FAULT
    entry = error.entry if isinstance(error, PassError) else None
    engine.meter.count("pass_errors", on="queue" if entry is None else "entry")
    errors, since = await engine.store.write(lambda tx: tx.queues.count_error(queue.id, now))
    cause = error.__cause__ or error
    if now - since < LIMIT * (_IN_DOUBT if entry is not None and entry.run.merge_requested_at is not None else 1):
        return now + wait(BACKOFF, errors - 1, random=engine.random)
    if entry is None:
        await _pause(engine, queue, cause)
    else:
        await _dequeue(engine, entry, cause)
    return now


async def _dequeue(engine: Engine, entry: Entry, cause: BaseException) -> None:
    policy = await _policy(engine, entry)
    why = DequeueReason(Reason.INTERNAL_ERROR, _detail(entry.trace, cause), delivery=entry.delivery)
    _log.error("internal_error", repository=entry.repository.full_name, number=entry.number, detail=why.detail)
    try:
        await _dequeue_present(engine, entry, why, policy)
    except StaleRecord:
        # The entry changed meanwhile: the next pass reads it again.
        return
    except Exception as error:
        if fault_of(error) is not None:
            raise
        # The notice is made from the same entry, and may cause the error.
        _log.exception("dequeue_failed", repository=entry.repository.full_name, number=entry.number)
        await _dequeue_present(engine, entry, why, None)


async def _dequeue_present(engine: Engine, entry: Entry, why: DequeueReason, policy: Policy | None) -> None:
    async with engine.change() as change:
        await change.tx.queues.clear_errors(entry.queue_id)
        if (present := await change.tx.entries.get(entry.id)) is not None:
            await record.dequeue(change, present, why, policy)


async def _pause(engine: Engine, queue: Queue, cause: BaseException) -> None:
    """Pause a queue whose passes fail before they select an entry: a maintainer has to find the cause."""
    detail = _detail(None, cause)
    _log.critical("queue_fails", queue=queue.id, repository=queue.repository.full_name, detail=detail)
    async with engine.change() as change:
        await change.tx.queues.clear_errors(queue.id)
        await record.pause(change, queue, Reason.INVARIANT_BROKEN, detail)


async def _policy(engine: Engine, entry: Entry) -> Policy:
    try:
        return await engine.policies.of(entry.repository, entry.base_branch)
    except GitHubError:
        return Policy()


def _detail(traceparent: str | None, cause: BaseException) -> str:
    """Return the error's type, and the trace id that its log lines have. No message, which may contain secrets."""
    with trace.continued(traceparent, "internal error"):
        return f"{type(cause).__name__}, trace {trace.ids()['trace_id']}"
