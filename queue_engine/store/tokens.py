"""Tokens of the API. Only their hashes are stored: whoever reads the database can use none of them."""

import hashlib
import secrets
from dataclasses import dataclass
from datetime import datetime, timedelta
from uuid import uuid4

from sqlalchemy import delete, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
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


_FIELDS = tuple(api_tokens.c[name] for name in Token.__dataclass_fields__)


class Tokens:
    """The tokens, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def create(self, name: str, *, login: str | None, operator: bool, now: datetime) -> str | None:
        """Make a token and return it: this is the only time that it is known. None if the name is taken."""
        secret = PREFIX + secrets.token_urlsafe(_RANDOM_BYTES)
        created = await self._connection.execute(
            insert_into(self._connection, api_tokens)
            .values(
                id=uuid4().hex,
                name=name,
                token_hash=_hash(secret),
                login=login,
                operator=operator,
                created_at=now,
            )
            .on_conflict_do_nothing(index_elements=["name"])
            .returning(api_tokens.c.id)
        )
        return None if created.scalar_one_or_none() is None else secret

    async def all(self) -> tuple[Token, ...]:
        """Every token, by name."""
        rows = await self._connection.execute(select(*_FIELDS).order_by(api_tokens.c.name))
        return tuple(Token(**row._mapping) for row in rows)

    async def revoke(self, name: str) -> bool:
        """Delete a token for good: the next call with it is refused. False if there is none of this name."""
        return (await self._connection.execute(delete(api_tokens).where(api_tokens.c.name == name))).rowcount == 1

    async def find(self, secret: str) -> Token | None:
        """The token that this secret is; None if it is none, or none any more.

        It is looked up by its hash, so the time that this takes tells nothing of the secrets that there are.
        """
        found = await self._connection.execute(select(*_FIELDS).where(api_tokens.c.token_hash == _hash(secret)))
        row = found.one_or_none()
        return None if row is None else Token(**row._mapping)

    async def note_use(self, token: Token, now: datetime) -> None:
        """Remember that the token was used now."""
        used = api_tokens.c.last_used_at
        stale = or_(used.is_(None), used <= now - _NOTED, used > now)
        statement = update(api_tokens).where(api_tokens.c.id == token.id, stale).values(last_used_at=now)
        await self._connection.execute(statement)


def _hash(secret: str) -> str:
    """A plain digest is enough: 32 random bytes cannot be guessed, so nothing is gained by a slow one."""
    return hashlib.sha256(secret.encode()).hexdigest()
