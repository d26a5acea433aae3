"""Rejections: pull requests that were not eligible, so that IMQ rejects and reports the same head once."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.domain.reasons import SENDER_REASONS, Reason
from queue_engine.store.tables import rejections


@dataclass(frozen=True, slots=True)
class Rejection:
    """The last rejection of a pull request: of which head, why, and when."""

    head_sha: str
    reason: Reason
    at: datetime

    def allows_retry(self, head_sha: str) -> bool:
        """Return whether IMQ judges this head again: another head, or the same after a rejection of the sender only."""
        return head_sha != self.head_sha or self.reason in SENDER_REASONS


_ITS_OWN = and_(
    rejections.c.repository_id == bindparam("its_repository"), rejections.c.number == bindparam("its_number")
)
_FIND = select(rejections.c.head_sha, rejections.c.reason, rejections.c.at).where(_ITS_OWN)
_CLEAR = delete(rejections).where(_ITS_OWN)
_PUT = Upsert(
    rejections,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["repository_id", "number"],
        set_={name: insert.excluded[name] for name in ("head_sha", "reason", "at")},
    ),
)


class Rejections:
    """The rejections, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, repository_id: int, number: int, head_sha: str, reason: Reason, now: datetime) -> None:
        """Store a rejection in place of an older one."""
        rejection = {"head_sha": head_sha, "reason": reason, "at": now}
        own = {"repository_id": repository_id, "number": number}
        await self._connection.execute(_PUT.on(self._connection), {**rejection, **own})

    async def find(self, repository_id: int, number: int) -> Rejection | None:
        """Return the last rejection of this pull request."""
        row = (await self._connection.execute(_FIND, _of(repository_id, number))).one_or_none()
        return None if row is None else Rejection(row.head_sha, Reason(row.reason), row.at)

    async def clear(self, repository_id: int, number: int) -> None:
        """Delete the rejection: the pull request was queued, or its label removed."""
        await self._connection.execute(_CLEAR, _of(repository_id, number))


def _of(repository_id: int, number: int) -> dict[str, int]:
    return {"its_repository": repository_id, "its_number": number}
