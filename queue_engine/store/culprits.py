"""The searches for culprits, a row each; those of a queue that are older than ninety days go when a new one begins."""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select, bindparam, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.read_model import adapter
from queue_engine.domain.culprit import CulpritRecord
from queue_engine.store.tables import culprits

_KEPT = timedelta(days=90)
_MOST = 20

_ADD = insert(culprits).returning(culprits.c.id)
_SAVE = update(culprits).where(culprits.c.id == bindparam("its_id"))
_PURGE = delete(culprits).where(culprits.c.queue_id == bindparam("its_queue"), culprits.c.at < bindparam("before"))
_LATEST = select(culprits).order_by(culprits.c.id.desc()).limit(_MOST)
_OF_QUEUE = _LATEST.where(culprits.c.queue_id == bindparam("its_queue"))
_SINCE = _LATEST.where(culprits.c.repository_id == bindparam("its_repository"), culprits.c.at >= bindparam("since"))
_AWAITED = select(culprits.c.repository_id, culprits.c.commit).where(
    culprits.c.repository_id.in_(bindparam("repositories", expanding=True)), culprits.c.commit.is_not(None)
)

_WAITING = select(culprits.c.queue_id).where(
    culprits.c.commit == bindparam("its_commit"), culprits.c.repository_id == bindparam("its_repository")
)


class Culprits:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(self, search: CulpritRecord, repository_id: int) -> CulpritRecord:
        """Store a new search, and return it with its id."""
        await self._connection.execute(_PURGE, {"its_queue": search.queue_id, "before": search.started - _KEPT})
        row = {"queue_id": search.queue_id, "repository_id": repository_id, "at": search.started, **_values(search)}
        return replace(search, id=(await self._connection.execute(_ADD, row)).scalar_one())

    async def save(self, search: CulpritRecord) -> None:
        """Store a search. One job at a time follows a queue's, so that nothing has to be compared."""
        await self._connection.execute(_SAVE, {"its_id": search.id, **_values(search)})

    async def of_queue(self, queue_id: int) -> tuple[CulpritRecord, ...]:
        """Return the last searches of a queue, the newest first."""
        return await self._read(_OF_QUEUE, {"its_queue": queue_id})

    async def since(self, repository_id: int, instant: datetime) -> tuple[CulpritRecord, ...]:
        """Return the last searches of a repository that began since, the newest first."""
        return await self._read(_SINCE, {"its_repository": repository_id, "since": instant})

    async def awaited(self, repository_ids: Collection[int]) -> set[tuple[int, str]]:
        """Return the commits of these repositories whose checks searches wait for."""
        found = await self._connection.execute(_AWAITED, {"repositories": list(repository_ids)})
        return {(row.repository_id, row.commit) for row in found}

    async def waiting(self, repository_id: int, sha: str) -> int | None:
        """Return the queue whose search waits for the checks of this commit."""
        these = {"its_repository": repository_id, "its_commit": sha}
        found: int | None = (await self._connection.execute(_WAITING, these)).scalar()
        return found

    async def _read(self, statement: Select[Any], its_own: Mapping[str, Any]) -> tuple[CulpritRecord, ...]:
        return tuple(map(_search_of, await self._connection.execute(statement, its_own)))


def _values(search: CulpritRecord) -> dict[str, Any]:
    return {"commit": search.commit, "search": as_data(search)}


def as_data(search: CulpritRecord) -> dict[str, Any]:
    data: dict[str, Any] = adapter(CulpritRecord).dump_python(search, mode="json", exclude_none=True)
    return data


def _search_of(row: Row[Any]) -> CulpritRecord:
    search: CulpritRecord = adapter(CulpritRecord).validate_python(row.search)
    return replace(search, id=row.id)
