"""How deep each queue is: who stands in it, and who waits for a place."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy import FromClause, Select, func, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.model import Repository
from queue_engine.reasons import Reason
from queue_engine.standing import Told
from queue_engine.store.repositories import REPOSITORY_FIELDS, repository_of
from queue_engine.store.tables import entries, held, queues, repositories


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """One queue: its entries, those held outside of it, and why it stands still, if it does."""

    queue_id: int
    repository: Repository
    base_branch: str
    depth: int
    held: int
    paused: Reason | None

    @property
    def busy(self) -> bool:
        """Whether it has entries, pull requests that wait for it, or a blocker."""
        return bool(self.depth or self.held or self.paused)

    def accepts(self, most: int) -> bool:
        """Whether one more would get a place now; `most` is the limit of entries, 0 for none."""
        return most == 0 or self.depth + self.held < most


class Depths:
    """The depths, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def all(self) -> tuple[QueueDepth, ...]:
        """Every queue that there has ever been, oldest first."""
        standing, waiting = await self._counted(entries), await self._counted(held)
        named: Select[Any] = (
            select(
                queues.c.id,
                queues.c.base_branch,
                queues.c.paused_reason,
                queues.c.told,
                *REPOSITORY_FIELDS,
            )
            .join(repositories)
            .order_by(queues.c.id)
        )
        return tuple(
            QueueDepth(
                queue_id=row.id,
                repository=repository_of(row),
                base_branch=row.base_branch,
                depth=standing.get(row.id, 0),
                held=waiting.get(row.id, 0),
                paused=_stands_still(row.paused_reason, row.told),
            )
            for row in await self._connection.execute(named)
        )

    async def _counted(self, table: FromClause) -> Mapping[int, int]:
        counted = select(table.c.queue_id, func.count()).group_by(table.c.queue_id)
        return dict(list(await self._connection.execute(counted)))


def _stands_still(paused: str | None, told: str | None) -> Reason | None:
    """A pause that stands, or else what those who wait were told of: a freeze, broken rules, a red base."""
    if paused is not None:
        return Reason(paused)
    known = Told.read(told)
    return None if known is None else Reason(known.reason)
