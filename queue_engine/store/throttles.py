"""Throttles: people who asked for something without permission, per repository."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.store.operation_tables import throttles

_ITS_OWN = and_(throttles.c.repository_id == bindparam("its_repository"), throttles.c.login == bindparam("its_login"))
_FIND = select(throttles.c.times, throttles.c.at).where(_ITS_OWN)
_CLEAR = delete(throttles).where(_ITS_OWN)
_PURGE = delete(throttles).where(throttles.c.at < bindparam("before"))
_PUT = Upsert(
    throttles,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["repository_id", "login"], set_={name: insert.excluded[name] for name in ("times", "at")}
    ),
)


@dataclass(frozen=True, slots=True)
class Throttle:
    """How often in a row a person asked without permission, and when last."""

    times: int
    at: datetime


class Throttles:
    """The throttles, on one connection. The case of logins does not count."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def find(self, repository_id: int, login: str) -> Throttle | None:
        """Return the throttle of this person in a repository."""
        row = (await self._connection.execute(_FIND, _of(repository_id, login))).one_or_none()
        return None if row is None else Throttle(row.times, row.at)

    async def put(self, repository_id: int, login: str, throttle: Throttle) -> None:
        """Store a throttle in place of an older one."""
        row = {"repository_id": repository_id, "login": login.casefold(), "times": throttle.times, "at": throttle.at}
        await self._connection.execute(_PUT.on(self._connection), row)

    async def clear(self, repository_id: int, login: str) -> bool:
        """Delete the throttle of a person with permission. Returns whether there was one."""
        return (await self._connection.execute(_CLEAR, _of(repository_id, login))).rowcount == 1

    async def purge(self, before: datetime) -> int:
        """Delete the throttles of people who asked last before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount


def _of(repository_id: int, login: str) -> dict[str, object]:
    return {"its_repository": repository_id, "its_login": login.casefold()}
