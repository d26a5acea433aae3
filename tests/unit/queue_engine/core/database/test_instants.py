from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import func, select

from queue_engine.core.database.database import Database, DatabaseInstant, metadata
from queue_engine.core.database.instants import InstantKind, clamp_instants, clock_offset, instant
from queue_engine.core.jobs.idempotency import KEPT, Keys, idempotency_keys
from queue_engine.core.jobs.job import jobs
from queue_engine.core.jobs.job_store import Jobs
from tests.support.claims import claim_one

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
YEAR = timedelta(days=365)
HOUR = timedelta(hours=1)
LEASE = timedelta(minutes=2)
BOUNDS = {InstantKind.PAST: timedelta(0), InstantKind.LEASE: LEASE, InstantKind.WAIT: HOUR, InstantKind.KEPT: KEPT}
SOON = timedelta(minutes=10)


async def test_waits_stored_under_a_clock_that_was_years_ahead_end_within_their_bound(database: Database) -> None:
    """A job waits an hour at most, and one whose worker died with the wrong clock comes back when a lease is over."""
    async with database.transaction() as connection:
        store = Jobs(connection)
        await store.enqueue(kind="left", request={}, process_id="left", now=NOW + YEAR)
        for name, at in (("held", NOW + YEAR), ("soon", NOW + SOON)):
            await store.enqueue(kind="k", request={}, process_id=name, now=NOW, not_before=at)
        assert await claim_one(store, owner="dead", now=NOW + YEAR, lease=SOON) is not None
    async with database.transaction() as connection:
        assert await clamp_instants(connection, NOW, BOUNDS) > 0
    async with database.transaction() as connection:
        store = Jobs(connection)
        came = []
        for passed in (LEASE, SOON, HOUR):
            found = await store.claim_some(9, owner="w", now=NOW + passed, lease=YEAR)
            came.append([job.process_id for job in found])
        assert came == [["left"], ["soon"], ["held"]]


async def test_instants_within_their_bounds_are_left_alone(database: Database) -> None:
    """On a machine whose clock was never wrong nothing is changed."""
    async with database.transaction() as connection:
        store = Jobs(connection)
        await store.enqueue(kind="k", request={}, process_id="a", now=NOW, not_before=NOW + HOUR)
        await store.enqueue(kind="k", request={}, process_id="b", now=NOW)
        assert await claim_one(store, owner="w", now=NOW, lease=LEASE) is not None
        await Keys(connection).record("s", [("key", "e")], NOW)
        assert await clamp_instants(connection, NOW, BOUNDS) == 0


async def test_key_recorded_under_a_clock_that_was_ahead_is_kept_as_long_as_any_other(database: Database) -> None:
    """It is not forgotten at once, which would have its request done twice; nor kept for years."""
    async with database.transaction() as connection:
        keys = Keys(connection)
        await keys.record("s", [("key", "e")], NOW + YEAR)
        await clamp_instants(connection, NOW, BOUNDS)
        assert await keys.known("s", "key", NOW + KEPT - SOON)
        assert not await keys.known("s", "key", NOW + KEPT)


async def test_what_happened_in_the_future_happened_now(database: Database) -> None:
    """Whatever counts from it, such as how long something may take, counts from now."""
    async with database.transaction() as connection:
        await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW + YEAR)
        await clamp_instants(connection, NOW, BOUNDS)
        assert (await connection.execute(select(func.max(jobs.c.created_at)))).scalar_one() == NOW


def test_every_instant_that_is_stored_says_what_it_is() -> None:
    """Else a clock that was wrong could leave work waiting for ever.

    The timeline only records the past. A person chose the end of a freeze and of a token, as far ahead as it may be.
    """
    silent = {
        f"{table.name}.{column.name}"
        for table in metadata.sorted_tables
        for column in table.columns
        if isinstance(column.type, DatabaseInstant) and not column.info
    }
    assert silent == {"timeline.at", "api_tokens.expires_at"}
    assert idempotency_keys.c.expires_at.info == instant(InstantKind.KEPT)


@pytest.mark.process
async def test_clock_is_compared_with_that_of_the_database_server(database: Database) -> None:
    """SQLite has no server, so no second clock shows which of the two is right."""
    async with database.transaction() as connection:
        difference = await clock_offset(connection, datetime.now(UTC) + HOUR)
    expected = timedelta(0) if database.dialect == "sqlite" else HOUR
    assert abs(difference - expected) < timedelta(minutes=1)
