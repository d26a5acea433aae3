"""Statements for the App's credentials and the secrets of its registration, which are one row."""

from dataclasses import dataclass

from sqlalchemy import bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.store.operation_tables import app_registration

_ROW = 1
_FIND = select(app_registration.c.nonce, app_registration.c.sealed)
_CREATE = Upsert(app_registration, lambda insert: insert.on_conflict_do_nothing(index_elements=["id"]))
_RENEW = update(app_registration).where(app_registration.c.nonce == bindparam("used")).values(nonce=bindparam("next"))
_EXPECT = update(app_registration).values(state=bindparam("expected"))
_FINISH = update(app_registration).where(app_registration.c.state == bindparam("returned")).values(state=None)
_SAVE = update(app_registration).values(sealed=bindparam("credentials"), state=None)
_REPLACE = (
    update(app_registration).where(app_registration.c.sealed == bindparam("former")).values(sealed=bindparam("newer"))
)
_SAVE_FIRST = _SAVE.where(app_registration.c.sealed.is_(None))


@dataclass(frozen=True, slots=True)
class GitHubSecret:
    """The row: random text from which the code is derived, and the encrypted credentials once the App exists."""

    nonce: str
    sealed: str | None


class GitHubSecrets:
    """The registration, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def find(self) -> GitHubSecret | None:
        """Return the registration; None before the first process created it."""
        row = (await self._connection.execute(_FIND)).one_or_none()
        return None if row is None else GitHubSecret(row.nonce, row.sealed)

    async def create(self, nonce: str) -> None:
        """Create the row, unless it exists."""
        await self._connection.execute(_CREATE.on(self._connection), {"id": _ROW, "nonce": nonce})

    async def renew(self, used: str, nonce: str) -> bool:
        """Replace the used nonce. Returns whether it was still the current one."""
        return (await self._connection.execute(_RENEW, {"used": used, "next": nonce})).rowcount == 1

    async def expect(self, state: str) -> None:
        """Expect this state, in place of an older one."""
        await self._connection.execute(_EXPECT, {"expected": state})

    async def finish(self, state: str) -> bool:
        """Expect the state no longer. Returns whether it was expected."""
        return (await self._connection.execute(_FINISH, {"returned": state})).rowcount == 1

    async def replace(self, former: str, newer: str) -> bool:
        """Replace the encrypted credentials. Returns whether they were still the former ones."""
        return (await self._connection.execute(_REPLACE, {"former": former, "newer": newer})).rowcount == 1

    async def save(self, sealed: str, *, replace: bool) -> bool:
        """Store credentials. Returns whether they are stored: older ones stay unless `replace` is set."""
        statement = _SAVE if replace else _SAVE_FIRST
        return (await self._connection.execute(statement, {"credentials": sealed})).rowcount == 1
