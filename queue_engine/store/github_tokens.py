"""GitHub's tokens for installations and the App's credentials, as IMQ encrypted them."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, delete, select, update

from queue_engine.core.database.database import TableStore, Upsert, replacing
from queue_engine.store.tables import app_registration, installation_tokens

_ITS_OWN = and_(
    installation_tokens.c.installation_id == bindparam("its_installation"),
    installation_tokens.c.repository_id == bindparam("its_repository"),
    installation_tokens.c.purpose == bindparam("its_purpose"),
)
_FIND = select(installation_tokens.c.sealed).where(_ITS_OWN)
_FORGET = delete(installation_tokens).where(_ITS_OWN, installation_tokens.c.sealed == bindparam("its_sealed"))
_PURGE = delete(installation_tokens).where(installation_tokens.c.at < bindparam("before"))
_PUT = replacing(installation_tokens)


@dataclass(frozen=True, slots=True)
class TokenKey:
    """The scope of a token; without a repository it reaches all of the installation's."""

    installation_id: int
    repository_id: int | None
    purpose: str


class GitHubTokens(TableStore):
    async def find(self, key: TokenKey) -> str | None:
        """Return the newest token, encrypted."""
        return (await self._connection.execute(_FIND, _of(key))).scalar_one_or_none()

    async def put(self, key: TokenKey, sealed: str, at: datetime) -> None:
        """Store a token in place of an older one; `at` is when GitHub issued it."""
        row = {"repository_id": key.repository_id or 0, "installation_id": key.installation_id}
        await self._connection.execute(
            _PUT.on(self._connection), row | {"purpose": key.purpose, "sealed": sealed, "at": at}
        )

    async def forget(self, key: TokenKey, sealed: str) -> None:
        """Delete this token; a newer one remains."""
        await self._connection.execute(_FORGET, _of(key) | {"its_sealed": sealed})

    async def purge(self, before: datetime) -> int:
        """Delete every token that was issued before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount


def _of(key: TokenKey) -> dict[str, object]:
    return {
        "its_installation": key.installation_id,
        "its_repository": key.repository_id or 0,
        "its_purpose": key.purpose,
    }


_ROW = 1
_FIND_SECRET = select(app_registration.c.nonce, app_registration.c.sealed)
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


class GitHubSecrets(TableStore):
    async def find(self) -> GitHubSecret | None:
        """Return the registration; None before the first process created it."""
        row = (await self._connection.execute(_FIND_SECRET)).one_or_none()
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
