"""Sessions of people at the pages. Only hashes of their secrets are stored, which grant nothing.

A session's secret is replaced at intervals. The former one stays valid until the browser has used the new one, and a
minute longer, for requests that it sent at the same time.
"""

import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import Row, and_, bindparam, delete, func, insert, or_, select, update

from queue_engine.core.database.database import TableStore, Upsert, record_in
from queue_engine.store.tables import login_owners, sessions
from queue_engine.store.tokens import hashed

GRACE = timedelta(minutes=1)
"""How long a former secret is valid after the first use of the new one."""
NOTED = timedelta(minutes=1)
"""The precision of a session's last use: IMQ need not write at each request."""

_LIFE, _IDLE = timedelta(days=30), timedelta(days=7)
_RENEWED = timedelta(hours=1)
MOST = 20
"""Sessions of one person: the next login ends the one that was used longest ago."""


@dataclass(frozen=True, slots=True)
class Session:
    """A person who is logged in at one browser."""

    id: str
    person_id: int
    login: str
    owns_login: bool
    """Whether the person was the first with this login; known only of the logins of `Sessions.own`."""
    secret_hash: str
    """Of the present secret."""
    former: bool
    """Whether the browser showed the former secret, and not the present one."""
    created_at: datetime
    used_at: datetime
    renewed_at: datetime
    settled: bool
    """Whether the former secret has an end already, or there is none."""

    def expired(self, now: datetime) -> bool:
        """Return whether the session is too old, or was unused for too long."""
        return now - self.created_at >= _LIFE or now - self.used_at >= _IDLE

    def needs_secret(self, now: datetime) -> bool:
        """Return whether it is time for a new secret."""
        return now - self.renewed_at >= _RENEWED

    def noted(self, now: datetime) -> bool:
        """Return whether the stored facts are precise enough, so that nothing has to be written."""
        return self.used_at <= now < self.used_at + NOTED and (self.former or self.settled)


_OWNER = (
    select(login_owners.c.person_id)
    .where(login_owners.c.login == func.lower(sessions.c.login))
    .scalar_subquery()
    .label("owner_id")
)
_OWN = Upsert(login_owners, lambda insert: insert.on_conflict_do_nothing())
_hash, _former = sessions.c.secret_hash, sessions.c.former_hash
_FIND = select(sessions, _OWNER).where(
    or_(
        _hash == bindparam("given"),
        and_(
            _former == bindparam("given"),
            or_(sessions.c.former_until.is_(None), sessions.c.former_until > bindparam("now")),
        ),
    )
)
_ID = sessions.c.id == bindparam("its_id")
_GET = select(sessions, _OWNER).where(_ID)
_USE = update(sessions).where(_ID).values(used_at=bindparam("now"))
_SETTLE = (
    update(sessions)
    .where(_ID, _hash == bindparam("used"), _former.is_not(None), sessions.c.former_until.is_(None))
    .values(former_until=bindparam("until"))
)
_RENEW = (
    update(sessions)
    .where(_ID, _hash == bindparam("known"))
    .values(
        secret_hash=bindparam("new"), former_hash=bindparam("shown"), former_until=None, renewed_at=bindparam("now")
    )
)
_END = delete(sessions).where(_ID)
_IDS = select(sessions.c.id).where(sessions.c.person_id == bindparam("person")).order_by(sessions.c.used_at.desc())
_END_ALL = delete(sessions).where(sessions.c.person_id == bindparam("person"))
_RENAME = update(sessions).where(sessions.c.person_id == bindparam("person")).values(login=bindparam("present"))
_PURGE = delete(sessions).where(
    or_(sessions.c.created_at <= bindparam("oldest"), sessions.c.used_at <= bindparam("idle"))
)


class Sessions(TableStore):
    async def create(self, *, person_id: int, login: str, now: datetime) -> str:
        """Create a session and return its secret, which is never stored. Ends the oldest ones beyond `MOST`."""
        others = (await self._connection.execute(_IDS, {"person": person_id})).scalars().all()
        for session_id in others[MOST - 1 :]:
            await self.end(session_id)
        secret = _new_secret()
        row = {"id": uuid4().hex, "secret_hash": hashed(secret), "person_id": person_id, "login": login}
        await self._connection.execute(insert(sessions), {**row, "created_at": now, "used_at": now, "renewed_at": now})
        return secret

    async def find(self, secret: str, now: datetime) -> Session | None:
        """Return the session with this secret, present or former; None if there is none, or if it has expired."""
        given = hashed(secret)
        row = (await self._connection.execute(_FIND, {"given": given, "now": now})).one_or_none()
        return None if row is None else _valid(row, given, now)

    async def get(self, session_id: str, now: datetime) -> Session | None:
        """Return the session with this id, whatever its secret is by now; None if it has ended or expired."""
        row = (await self._connection.execute(_GET, {"its_id": session_id})).one_or_none()
        return None if row is None else _valid(row, row.secret_hash, now)

    async def note_use(self, session: Session, now: datetime) -> None:
        """Store that the session was used now; the use of the present secret gives the former one its end."""
        await self._connection.execute(_USE, {"its_id": session.id, "now": now})
        if not session.former and not session.settled:
            values = {"its_id": session.id, "used": session.secret_hash, "until": now + GRACE}
            await self._connection.execute(_SETTLE, values)

    async def renew(self, session: Session, shown: str, now: datetime) -> str | None:
        """Replace the secret and return the new one, `shown` being the browser's; None if another request did."""
        secret = _new_secret()
        values = {
            "its_id": session.id,
            "known": session.secret_hash,
            "new": hashed(secret),
            "shown": hashed(shown),
            "now": now,
        }
        return secret if (await self._connection.execute(_RENEW, values)).rowcount == 1 else None

    async def end(self, session_id: str) -> None:
        """Delete a session: its next request is that of a person who is not logged in."""
        await self._connection.execute(_END, {"its_id": session_id})

    async def end_all(self, person_id: int) -> int:
        """Delete all sessions of a person; return how many there were."""
        return (await self._connection.execute(_END_ALL, {"person": person_id})).rowcount

    async def rename(self, person_id: int, login: str) -> None:
        await self._connection.execute(_RENAME, {"person": person_id, "present": login})

    async def own(self, login: str, person_id: int) -> None:
        """Store that the login is this person's, unless it was another person's before."""
        await self._connection.execute(_OWN.on(self._connection), {"login": login.lower(), "person_id": person_id})

    async def purge(self, now: datetime) -> None:
        """Delete expired sessions."""
        await self._connection.execute(_PURGE, {"oldest": now - _LIFE, "idle": now - _IDLE})


def _valid(row: Row[Any], given: str, now: datetime) -> Session | None:
    """Read a session from its row; None if it has expired."""
    found = record_in(
        Session,
        row,
        owns_login=row.owner_id == row.person_id,
        former=row.secret_hash != given,
        settled=row.former_hash is None or row.former_until is not None,
    )
    return None if found.expired(now) else found


def _new_secret() -> str:
    return secrets.token_urlsafe(32)
