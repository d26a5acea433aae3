"""GitHub's tokens for installations, one per scope, as the gateway encrypted them."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import and_, bindparam, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.store.operation_tables import installation_tokens

_ITS_OWN = and_(
    installation_tokens.c.installation_id == bindparam("its_installation"),
    installation_tokens.c.repository_id == bindparam("its_repository"),
    installation_tokens.c.purpose == bindparam("its_purpose"),
)
_FIND = select(installation_tokens.c.sealed).where(_ITS_OWN)
_FORGET = delete(installation_tokens).where(_ITS_OWN, installation_tokens.c.sealed == bindparam("its_sealed"))
_PURGE = delete(installation_tokens).where(installation_tokens.c.at < bindparam("before"))
_PUT = Upsert(
    installation_tokens,
    lambda insert: insert.on_conflict_do_update(
        index_elements=["installation_id", "repository_id", "purpose"],
        set_={name: insert.excluded[name] for name in ("sealed", "at")},
    ),
)


@dataclass(frozen=True, slots=True)
class TokenKey:
    """The scope of a token; without a repository it reaches all of the installation's."""

    installation_id: int
    repository_id: int | None
    purpose: str


class GitHubTokens:
    """The tokens, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

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
