"""Release many idle queues in one transaction, without a pass over each.

A sweep, a restart or a change of shared configuration wakes all queues at once. Most of them wait for a later instant.
The decision is that of a pass (`queue_engine.planner.front`), made for many queues with a few statements.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy.exc import SQLAlchemyError

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry, Queue, QueueFront
from queue_engine.effects.context import Engine
from queue_engine.planner.front import QueueWait, front_decides, wait_of
from queue_engine.rules.policies import PolicyKey
from queue_engine.store import Transaction

_AT_MOST = 100
"""Queues in one transaction, which takes some 20 ms: SQLite has one writer."""

_READ_AT_MOST = 500
"""Queues whose policies are recalled at once, after a restart."""

_MOST_BUSY = 5_000
"""Queues that need a pass, remembered so that each is read here once."""


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
