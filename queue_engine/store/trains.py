"""Memories of plans, one for each queue, as JSON; each write is compare-and-set on the version."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Integer, bindparam, delete, insert, select, update

from queue_engine.core.database.database import TableStore
from queue_engine.domain.errors import StaleRecord
from queue_engine.store.tables import trains

_ITS_OWN = trains.c.queue_id == bindparam("its_queue", type_=Integer)
_GET = select(trains).where(_ITS_OWN)
_OF_QUEUES = select(trains).where(trains.c.queue_id.in_(bindparam("its_queues", expanding=True)))
_ADD = insert(trains)
_SAVE = update(trains).where(_ITS_OWN, trains.c.version == bindparam("its_version", type_=Integer))
_REMOVE = delete(trains).where(_ITS_OWN)


@dataclass(frozen=True, slots=True)
class TrainMemory:
    """The memory of one queue; version 0: none is stored."""

    queue_id: int
    version: int
    memory: Mapping[str, Any]


class TrainMemories(TableStore):
    async def get(self, queue_id: int) -> TrainMemory:
        """Return the memory of this queue, empty if there is none."""
        row = (await self._connection.execute(_GET, {"its_queue": queue_id})).first()
        return TrainMemory(queue_id, 0, {}) if row is None else TrainMemory(queue_id, row.version, row.memory)

    async def of_queues(self, queue_ids: Collection[int]) -> dict[int, Mapping[str, Any]]:
        """Return the memories of these queues, by the queue's id; a queue without one is left out."""
        found = await self._connection.execute(_OF_QUEUES, {"its_queues": list(queue_ids)})
        return {row.queue_id: row.memory for row in found}

    async def save(self, changed: TrainMemory) -> TrainMemory:
        """Store a memory, and return it with its new version. Raises StaleRecord if another was stored since."""
        version = changed.version + 1
        values = {"version": version, "memory": dict(changed.memory)}
        if changed.version == 0:
            await self._connection.execute(_ADD, {"queue_id": changed.queue_id, **values})
        else:
            its_own = {"its_queue": changed.queue_id, "its_version": changed.version}
            if (await self._connection.execute(_SAVE, {**values, **its_own})).rowcount != 1:
                raise StaleRecord(f"the trains of queue {changed.queue_id} are no longer at version {changed.version}")
        return TrainMemory(changed.queue_id, version, changed.memory)

    async def remove(self, queue_id: int) -> None:
        """Forget what plans for this queue remember."""
        await self._connection.execute(_REMOVE, {"its_queue": queue_id})
