"""Tokens of the API. Only their hashes are stored: whoever reads the database can use none of them."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import bindparam, delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import Upsert
from queue_engine.store.tables import api_tokens

PREFIX = "imq_"
"""What every token begins with, so that people and secret scanners know one when they see it."""

_RANDOM_BYTES = 32
_NOTED = timedelta(minutes=1)
"""How exactly a token's last use is kept; a write for each call would buy nothing."""


@dataclass(frozen=True, slots=True)
class Token:
    """Whom a call comes from. `login` is the GitHub user for whom, and with whose rights, the token acts."""

    id: str
    name: str
    login: str | None
    operator: bool
    """Whether it may see and steer IMQ itself."""
    created_at: datetime
    last_used_at: datetime | None

    def noted(self, now: datetime) -> bool:
        """Whether its last use is known exactly enough."""
        return self.last_used_at is not None and now - _NOTED < self.last_used_at <= now


_ALL = select(*(api_tokens.c[name] for name in Token.__dataclass_fields__)).order_by(api_tokens.c.name)
_FIND = _ALL.where(api_tokens.c.token_hash == bindparam("its_hash"))
_REVOKE = delete(api_tokens).where(api_tokens.c.name == bindparam("its_name"))
_CREATE = Upsert(
    api_tokens, lambda insert: insert.on_conflict_do_nothing(index_elements=["name"]).returning(api_tokens.c.id)
)
_used = api_tokens.c.last_used_at
_NOTE_USE = update(api_tokens).where(
    api_tokens.c.id == bindparam("its_id"),
    or_(_used.is_(None), _used <= bindparam("long_ago"), _used > bindparam("now")),
)


class Tokens:
    """The tokens, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, name: str, *, login: str | None, operator: bool, now: datetime) -> str | None:
        """Make a token and return it: this is the only time that it is known. None if the name is taken."""
        secret = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        token = {
            "id": uuid4().hex,
            "name": name,
            "token_hash": _hash(secret),
            "login": login,
            "operator": operator,
            "created_at": now,
        }
        created = await self._connection.execute(_CREATE.on(self._connection), token)
        return None if created.scalar_one_or_none() is None else secret

    async def all(self) -> tuple[Token, ...]:
        """Every token, by name."""
        return tuple(Token(**row._mapping) for row in await self._connection.execute(_ALL))

    async def revoke(self, name: str) -> bool:
        """Delete a token for good: the next call with it is refused. False if there is none of this name."""
        return (await self._connection.execute(_REVOKE, {"its_name": name})).rowcount == 1

    async def find(self, secret: str) -> Token | None:
        """The token that this secret is; None if it is none, or none any more.

        It is looked up by its hash, so the time that this takes tells nothing of the secrets that there are.
        """
        row = (await self._connection.execute(_FIND, {"its_hash": _hash(secret)})).one_or_none()
        return None if row is None else Token(**row._mapping)

    async def note_use(self, token: Token, now: datetime) -> None:
        """Remember that the token was used now."""
        noted = {"its_id": token.id, "last_used_at": now, "now": now, "long_ago": now - _NOTED}
        await self._connection.execute(_NOTE_USE, noted)


def _hash(secret: str) -> str:
    """A plain digest is enough: 32 random bytes cannot be guessed, so nothing is gained by a slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()
