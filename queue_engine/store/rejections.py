"""Rejections: pull requests that were not eligible, and people who asked for something without permission."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, delete, select

from queue_engine.core.database.database import TableStore, replacing
from queue_engine.domain.reasons import SENDER_REASONS, Reason
from queue_engine.store.tables import rejections, throttles


@dataclass(frozen=True, slots=True)
class Rejection:
    """The last rejection of a pull request: of which head, why, and when."""

    head_sha: str
    reason: Reason
    at: datetime

    def allows_retry(self, head_sha: str) -> bool:
        """Return whether IMQ judges this head again: another head, or the same after a rejection of the sender only."""
        return head_sha != self.head_sha or self.reason in SENDER_REASONS


_ITS_REJECTION = and_(
    rejections.c.repository_id == bindparam("its_repository"), rejections.c.number == bindparam("its_number")
)
_FIND_REJECTION = select(rejections.c.head_sha, rejections.c.reason, rejections.c.at).where(_ITS_REJECTION)
_CLEAR_REJECTION = delete(rejections).where(_ITS_REJECTION)
_PUT_REJECTION = replacing(rejections)


class Rejections(TableStore):
    async def put(self, repository_id: int, number: int, head_sha: str, reason: Reason, now: datetime) -> None:
        """Store a rejection in place of an older one."""
        rejection = {"head_sha": head_sha, "reason": reason, "at": now}
        own = {"repository_id": repository_id, "number": number}
        await self._connection.execute(_PUT_REJECTION.on(self._connection), {**rejection, **own})

    async def find(self, repository_id: int, number: int) -> Rejection | None:
        """Return the last rejection of this pull request."""
        row = (await self._connection.execute(_FIND_REJECTION, _of(repository_id, number))).one_or_none()
        return None if row is None else Rejection(row.head_sha, Reason(row.reason), row.at)

    async def clear(self, repository_id: int, number: int) -> None:
        """Delete the rejection: the pull request was queued, or its label removed."""
        await self._connection.execute(_CLEAR_REJECTION, _of(repository_id, number))


def _of(repository_id: int, number: int) -> dict[str, int]:
    return {"its_repository": repository_id, "its_number": number}


_ITS_THROTTLE = and_(
    throttles.c.repository_id == bindparam("its_repository"), throttles.c.login == bindparam("its_login")
)
_FIND_THROTTLE = select(throttles.c.times, throttles.c.at).where(_ITS_THROTTLE)
_CLEAR_THROTTLE = delete(throttles).where(_ITS_THROTTLE)
_PURGE_THROTTLES = delete(throttles).where(throttles.c.at < bindparam("before"))
_PUT_THROTTLE = replacing(throttles)


@dataclass(frozen=True, slots=True)
class Throttle:
    """How often in a row a person asked without permission, and when last."""

    times: int
    at: datetime


class Throttles(TableStore):
    """The throttles, on one connection. The case of logins does not count."""

    async def find(self, repository_id: int, login: str) -> Throttle | None:
        row = (await self._connection.execute(_FIND_THROTTLE, _of_person(repository_id, login))).one_or_none()
        return None if row is None else Throttle(row.times, row.at)

    async def put(self, repository_id: int, login: str, throttle: Throttle) -> None:
        """Store a throttle in place of an older one."""
        row = {"repository_id": repository_id, "login": login.casefold(), "times": throttle.times, "at": throttle.at}
        await self._connection.execute(_PUT_THROTTLE.on(self._connection), row)

    async def clear(self, repository_id: int, login: str) -> bool:
        """Delete the throttle of a person with permission. Returns whether there was one."""
        return (await self._connection.execute(_CLEAR_THROTTLE, _of_person(repository_id, login))).rowcount == 1

    async def purge(self, before: datetime) -> int:
        """Delete the throttles of people who asked last before then. Returns how many."""
        return (await self._connection.execute(_PURGE_THROTTLES, {"before": before})).rowcount


def _of_person(repository_id: int, login: str) -> dict[str, object]:
    return {"its_repository": repository_id, "its_login": login.casefold()}
