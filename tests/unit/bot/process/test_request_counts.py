"""Counts of requests are stored once a minute, and wait for a database that is down."""

from collections import Counter

import pytest
from sqlalchemy import text

from bot.metrics.gauges import COUNTED_EVERY, RequestCounts
from queue_engine.core.database.database import Database
from queue_engine.queries.queue_statistics import load_statistics, period
from queue_engine.store import Store
from queue_engine.store.departures import DepartureQuery
from tests.unit.bot.conftest import ManualClock


async def stored(store: Store, clock: ManualClock) -> int | None:
    """What the statistics of today have."""
    async with store.reading() as tx:
        return (await load_statistics(tx, DepartureQuery(*period(clock.now(), 1)))).requests


async def test_counts_are_stored_once_a_minute(store: Store, clock: ManualClock) -> None:
    """A process that sent nothing writes nothing, and the last counts are stored at the end."""
    counts: Counter[int] = Counter()
    writer = RequestCounts(store, clock, counts)
    clock.instant += COUNTED_EVERY
    assert await writer.run_due()
    assert await stored(store, clock) is None
    counts[7] += 3
    assert not await writer.run_due()
    clock.instant += COUNTED_EVERY
    assert await writer.next_due() == clock.now()
    assert await writer.run_due()
    assert (await stored(store, clock), counts) == (3, Counter())
    counts[7] += 2
    await writer.close()
    assert await stored(store, clock) == 5


async def test_counts_wait_for_the_database(store: Store, database: Database, clock: ManualClock) -> None:
    """What could not be stored is stored later, once."""
    counts = Counter({7: 3})
    writer = RequestCounts(store, clock, counts)
    clock.instant += COUNTED_EVERY
    async with store.transaction() as tx:
        await tx.connection.execute(text("ALTER TABLE request_days RENAME TO away"))
    with pytest.raises(Exception, match="request_days"):
        await writer.run_due()
    await writer.close()
    assert counts == {7: 3}
    async with store.transaction() as tx:
        await tx.connection.execute(text("ALTER TABLE away RENAME TO request_days"))
    assert await writer.run_due()
    assert await stored(store, clock) == 3
