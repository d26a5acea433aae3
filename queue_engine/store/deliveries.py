"""Deliveries: the ids of webhooks already stored, so that a redelivery, which keeps its id, does nothing."""

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import delete, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
from queue_engine.store.tables import deliveries


class Deliveries:
    """The known deliveries, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def record(self, received: Sequence[tuple[str, str]], now: datetime) -> frozenset[str]:
        """Remember deliveries, each an id and its event. Returns the ids that were not known.

        Whoever stored one that was known also stored its job.
        """
        # In one order for everybody: two processes that store the same ones wait for each other, never both at once.
        values = [{"guid": guid, "event": event, "received_at": now} for guid, event in sorted(received)]
        recorded = await self._connection.execute(
            insert_into(self._connection, deliveries).on_conflict_do_nothing().returning(deliveries.c.guid), values
        )
        return frozenset(recorded.scalars())

    async def known(self, guid: str) -> bool:
        """Whether this delivery was recorded."""
        found = select(deliveries.c.guid).where(deliveries.c.guid == guid)
        return (await self._connection.execute(found)).one_or_none() is not None

    async def purge(self, before: datetime) -> int:
        """Forget deliveries received before then; GitHub redelivers for a few days only. Returns how many."""
        return (await self._connection.execute(delete(deliveries).where(deliveries.c.received_at < before))).rowcount
