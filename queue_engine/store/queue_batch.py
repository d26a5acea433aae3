"""Many due queues in one transaction: most of those that are woken together have nothing to do.

The rows of these queues stay locked until the transaction ends. So a wake-up either comes before, and is seen here, or
after, and then makes the queue due again.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime

from sqlalchemy import BindParameter, Integer, String, and_, bindparam, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant
from queue_engine.domain.known_facts import SHARED_RULES
from queue_engine.domain.model import Queue, QueueFront
from queue_engine.store.entries import front_of, fronts
from queue_engine.store.order import NOT_READY
from queue_engine.store.queues import DUE, Queues
from queue_engine.store.tables import entries, queues, repositories

_WITHOUT: BindParameter[int] = bindparam("without", expanding=True)
_DUE_IDS = (
    select(queues.c.id)
    .where(DUE, queues.c.id.not_in(_WITHOUT))
    .order_by(queues.c.due_at, queues.c.id)
    .limit(bindparam("at_most", type_=Integer))
)
_LOCK_DUE = _DUE_IDS.with_for_update(skip_locked=True)
_SHARED_GENERATIONS = (
    select(func.lower(repositories.c.owner).label("owner"), repositories.c.generation)
    .where(
        func.lower(repositories.c.name) == SHARED_RULES,
        func.lower(repositories.c.owner).in_(bindparam("owners", type_=String, expanding=True)),
    )
    .order_by(repositories.c.id)
)
_FRONTS = fronts(and_(entries.c.queue_id.in_(bindparam("its_queues", expanding=True)), ~NOT_READY))
_RELEASE = (
    update(queues)
    .where(queues.c.id == bindparam("its_id"))
    .values(due_at=bindparam("at", type_=DatabaseInstant), lease_owner=None, leased_until=None)
)


class QueueBatch:
    """The due queues, on one connection."""

    def __init__(self, connection: AsyncConnection, all_queues: Queues) -> None:
        self._connection = connection
        self._queues = all_queues

    async def lock_due(self, *, now: datetime, without: Collection[int], at_most: int) -> tuple[Queue, ...]:
        """Lock up to `at_most` queues that are due and not leased, `without` these, until the transaction ends."""
        due = {"now": now, "without": list(without), "at_most": at_most}
        ids = list(await self._connection.scalars(_LOCK_DUE, due))
        # Read after the locks: whatever was stored with an earlier wake-up is seen.
        return await self._queues.some(ids) if ids else ()

    async def due(self, *, now: datetime, without: Collection[int], at_most: int) -> tuple[Queue, ...]:
        """Return the same queues without a lock."""
        due = {"now": now, "without": list(without), "at_most": at_most}
        ids = list(await self._connection.scalars(_DUE_IDS, due))
        return await self._queues.some(ids) if ids else ()

    async def shared_generations(self, some: Sequence[Queue]) -> Mapping[str, int]:
        """Count the known changes of the shared configuration of each owner of these queues, by lower-case name."""
        owners = sorted({queue.repository.owner.lower() for queue in some})
        found = await self._connection.execute(_SHARED_GENERATIONS, {"owners": owners})
        return {row.owner: row.generation for row in found}

    async def fronts(self, queue_ids: Sequence[int]) -> Mapping[int, QueueFront]:
        """Return the front of each of these queues by order, by the queue's id; an empty queue is left out."""
        found = map(front_of, await self._connection.execute(_FRONTS, {"its_queues": queue_ids}))
        return {front.entry.queue_id: front for front in found}

    async def release(self, dues: Mapping[int, datetime | None]) -> None:
        """End the leases of locked queues, by id, with their next due times; None: until an event wakes the queue."""
        if dues:
            values = [{"its_id": queue_id, "at": due} for queue_id, due in sorted(dues.items())]
            await self._connection.execute(_RELEASE, values)
