"""Idempotency keys: a request that is sent twice is carried out once, and both get the same answer."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import JSON, Column, Integer, String, Table, delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import UtcDateTime, insert_into, metadata

KEPT = timedelta(hours=72)
"""How long a key is remembered; after that the same key is a new request."""

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("scope", String(64), primary_key=True),
    Column("key", String(255), primary_key=True),
    Column("endpoint", String(255), nullable=False),
    Column("request_hash", String(64)),
    Column("response_status", Integer),
    Column("response_body", JSON(none_as_null=True)),
    Column("owner", String(32)),
    Column("running_until", UtcDateTime),
    Column("created_at", UtcDateTime, nullable=False),
    Column("expires_at", UtcDateTime, nullable=False, index=True),
)
"""One row for each key in its scope: a caller of the API, or the webhooks. Without a status it is still running."""


class Keys:
    """The keys, on one connection; what is done here is part of that connection's transaction."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def record(
        self, scope: str, received: Sequence[tuple[str, str]], now: datetime, *, status: int
    ) -> frozenset[str]:
        """Remember requests that are answered with `status` by being stored, each a key and its endpoint.

        Returns the keys that were not known. Whoever stored one that was known also stored what follows from it.
        """
        # In one order for everybody: two processes that store the same ones wait for each other, never both at once.
        times = {"created_at": now, "expires_at": now + KEPT}
        values = [
            {"scope": scope, "key": key, "endpoint": endpoint, "response_status": status, **times}
            for key, endpoint in sorted(received)
        ]
        recorded = await self._connection.execute(
            insert_into(self._connection, idempotency_keys).on_conflict_do_nothing().returning(idempotency_keys.c.key),
            values,
        )
        return frozenset(recorded.scalars())

    async def known(self, scope: str, key: str) -> bool:
        """Whether this key is remembered."""
        found = select(idempotency_keys.c.key).where(idempotency_keys.c.scope == scope, idempotency_keys.c.key == key)
        return (await self._connection.execute(found)).one_or_none() is not None

    async def purge(self, now: datetime) -> int:
        """Forget the keys that have expired. Returns how many."""
        expired = delete(idempotency_keys).where(idempotency_keys.c.expires_at <= now)
        return (await self._connection.execute(expired)).rowcount
