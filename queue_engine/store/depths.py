"""Count the entries of each queue, and the held pull requests."""

from collections.abc import Mapping

from sqlalchemy import FromClause, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.store.tables import entries, held, queues


class Depths:
    """The depths, on one connection. Each call counts for all queues, or for those of one repository, by their ids."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def entries(self, repository_id: int | None = None) -> Mapping[int, int]:
        """How many entries each queue has; a queue without any is left out."""
        return await self._counted(entries, repository_id)

    async def held(self, repository_id: int | None = None) -> Mapping[int, int]:
        """How many pull requests wait for a place in each queue; a queue without any is left out."""
        return await self._counted(held, repository_id)

    async def _counted(self, table: FromClause, repository_id: int | None) -> Mapping[int, int]:
        counted = select(table.c.queue_id, func.count()).group_by(table.c.queue_id)
        if repository_id is not None:
            its_queues = select(queues.c.id).where(queues.c.repository_id == repository_id)
            counted = counted.where(table.c.queue_id.in_(its_queues))
        return dict(list(await self._connection.execute(counted)))
