"""Count the entries of each queue: those that have room in it, and those that wait for room.

Counts follow the last announcement: only the configuration of a base branch has its limit, and each pass announces.
"""

from collections.abc import Mapping

from sqlalchemy import ColumnElement, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.store.order import HELD, NOT_READY, WITH_ROOM
from queue_engine.store.tables import entries, queues


class Depths:
    """The depths, on one connection. Each call counts for all queues, or for those of one repository, by queue id."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def entries(self, repository_id: int | None = None) -> Mapping[int, int]:
        """Count the entries with room in each queue; a queue without any is left out."""
        return await self._counted(WITH_ROOM, repository_id)

    async def held(self, repository_id: int | None = None) -> Mapping[int, int]:
        """Count the entries that wait for room in each queue; a queue without any is left out."""
        return await self._counted(HELD, repository_id)

    async def not_ready(self, repository_id: int | None = None) -> Mapping[int, int]:
        """Count the entries that wait outside each queue until they are ready; a queue without any is left out."""
        return await self._counted(NOT_READY, repository_id)

    async def _counted(self, which: ColumnElement[bool], repository_id: int | None) -> Mapping[int, int]:
        counted = select(entries.c.queue_id, func.count()).where(which).group_by(entries.c.queue_id)
        if repository_id is not None:
            its_queues = select(queues.c.id).where(queues.c.repository_id == repository_id)
            counted = counted.where(entries.c.queue_id.in_(its_queues))
        return dict(list(await self._connection.execute(counted)))
