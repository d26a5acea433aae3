"""Refusals: pull requests turned away at the door, so that the same head is refused, and told, only once."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, and_, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
from queue_engine.reasons import Reason
from queue_engine.store.tables import refusals


@dataclass(frozen=True, slots=True)
class Refusal:
    """The last refusal of a pull request: of which head, why, and when."""

    repository_id: int
    number: int
    head_sha: str
    reason: Reason
    at: datetime


class Refusals:
    """The refusals, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, repository_id: int, number: int, head_sha: str, reason: Reason, now: datetime) -> None:
        """Remember this refusal in place of an older one."""
        refusal = {"head_sha": head_sha, "reason": reason, "at": now}
        await self._connection.execute(
            insert_into(self._connection, refusals)
            .values(repository_id=repository_id, number=number, **refusal)
            .on_conflict_do_update(index_elements=["repository_id", "number"], set_=refusal)
        )

    async def find(self, repository_id: int, number: int) -> Refusal | None:
        """The refusal that stands for this pull request."""
        row = (await self._connection.execute(select(refusals).where(_of(repository_id, number)))).one_or_none()
        return None if row is None else Refusal(**(dict(row._mapping) | {"reason": Reason(row.reason)}))

    async def clear(self, repository_id: int, number: int) -> None:
        """Forget it: the pull request was queued, or its label went."""
        await self._connection.execute(delete(refusals).where(_of(repository_id, number)))


def _of(repository_id: int, number: int) -> ColumnElement[bool]:
    return and_(refusals.c.repository_id == repository_id, refusals.c.number == number)
