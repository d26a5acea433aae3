"""A database of an earlier release gets its departures from its timeline.

Covers `queue_engine/handlers/departures.py` and `queue_engine/effects/departures.py`.
"""

from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, cast

import structlog

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job_store import Job
from queue_engine.core.timing.clock import SystemClock
from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.policy import Policy
from queue_engine.domain.port import GitHub
from queue_engine.domain.reasons import Reason
from queue_engine.domain.timeline_event import WHOLE_QUEUE, TimelineEvent
from queue_engine.effects.context import Change, Engine
from queue_engine.handlers.table_limits import TableLimits
from queue_engine.migrations import migrate
from queue_engine.store import Store
from queue_engine.store.departure_tables import departures, flaky_days
from queue_engine.store.departures import day_of
from tests.store.examples import REPOSITORY, changed, entry
from tests.store.migration_examples import MINUTE, NOON, differences
from tests.store.test_departures import departure, stored_sums, sums
from tests.support.policies import StaticPolicies

HOUR = timedelta(hours=1)


class Stopped(SystemClock):
    """A clock that stays an hour after noon."""

    def now(self) -> datetime:
        return NOON + HOUR


def engine_on(store: Store) -> Engine:
    return Engine(store, cast(GitHub, None), Stopped(), StaticPolicies(Policy()), lambda: 0.5, "test")


async def happened(
    store: Store, minute: float, name: str, number: int, reason: Reason | None = None, **data: Any
) -> None:
    entry_id = None if number == WHOLE_QUEUE else f"e{number}"
    event = TimelineEvent(NOON + minute * MINUTE, name, REPOSITORY.id, "main", number, entry_id, reason, data=data)
    async with store.transaction() as tx:
        await tx.timeline.append(event)


async def complete(store: Store) -> list[int]:
    """How many departures each run of the job derives."""
    with structlog.testing.capture_logs() as lines:
        await TableLimits(engine_on(store), timeline_kept=None).purge(cast(Job, None))
    return [line["departures"] for line in lines if line["event"] == "departures_completed"]


async def test_departures_of_an_older_database_are_derived_from_its_timeline(empty_database: Database) -> None:
    """One waited behind the other, and through a pause. A second sweep finds nothing to do."""
    await migrate(empty_database, "0030")
    store = Store(empty_database)
    await happened(store, 0, "queued", 1, position=0)
    await happened(store, 1, "checking", 1)
    await happened(store, 2, "queued", 2, position=1)
    await happened(store, 3, "paused", WHOLE_QUEUE, Reason.PAUSED_BY_HAND)
    await happened(store, 5, "resumed", WHOLE_QUEUE, Reason.PAUSED_BY_HAND)
    await happened(store, 8, "landed", 1, queue=8 * 60.0, front=7 * 60.0, checks=5 * 60.0)
    await happened(store, 9, "checking", 2)
    await happened(store, 11, "failed", 2, Reason.CHECKS_FAILED)
    await migrate(empty_database)
    assert await complete(store) == [2]
    assert await complete(store) == []
    async with store.reading() as tx:
        assert await tx.connection.run_sync(differences) == []
        [first] = await tx.departures.of_pull_request(REPOSITORY.id, 1)
        [second] = await tx.departures.of_pull_request(REPOSITORY.id, 2)
    assert (first.outcome, first.waited, first.other, first.checks, first.paused) == (
        EntryStatus.LANDED,
        480,
        60,
        300,
        120,
    )
    assert (second.outcome, second.reason, second.title) == (EntryStatus.FAILED, Reason.CHECKS_FAILED, None)
    assert (second.capacity, second.paused, second.other, second.checks) == (240, 120, 60, 120)


async def test_sweep_completes_what_a_process_of_the_previous_release_ended(store: Store) -> None:
    """During an upgrade both releases run; what this one stored itself is not derived again."""
    me = changed(entry(), enqueued_at=NOON)
    async with store.transaction() as tx:
        await Change(tx, NOON + MINUTE).record("landed", me, data={"queue": 60.0, "front": 0.0})
    assert await complete(store) == []
    await happened(store, 59, "cancelled", 2, Reason.CLOSED)
    assert await complete(store) == [1]
    async with store.reading() as tx:
        [kept] = await tx.departures.of_pull_request(REPOSITORY.id, 1)
        [derived] = await tx.departures.of_pull_request(REPOSITORY.id, 2)
    assert (kept.title, derived.title) == (me.title, None)


async def test_flaky_checks_of_stored_departures_are_added_up_by_the_migration(empty_database: Database) -> None:
    """The sums of an older database are those that departures after the migration would have made."""
    await migrate(empty_database, "0040")
    store = Store(empty_database)
    checks = (RerunCheck("ci", ("unit", "e2e"), 1, 60.0, 10.0), RerunCheck("unit", (), 2, None, 4.0))
    every = [departure(1, flaky=checks), departure(2, flaky=checks[:1]), departure(3, number=2)]
    async with store.transaction() as tx:
        for each in every:
            row = {name: getattr(each, name) for name in Departure.__dataclass_fields__}
            flaky = [asdict(check) for check in each.flaky] or None
            await tx.connection.execute(
                departures.insert(), row | {"flaky": flaky, "is_last": True, "day": day_of(each.left_at)}
            )
    await migrate(empty_database)
    async with store.transaction() as tx:
        migrated = sorted(map(tuple, await tx.connection.execute(flaky_days.select())))
        await tx.connection.execute(flaky_days.delete())
        await tx.connection.execute(departures.delete())
        for each in every:
            await tx.departures.put(each)
        assert sorted(map(tuple, await tx.connection.execute(flaky_days.select()))) == migrated
    assert len(migrated) == 4


async def test_departures_are_purged_with_the_timeline(store: Store) -> None:
    """`IMQ_TIMELINE_DAYS` is the age of both, also where no event is old enough any more."""
    async with store.transaction() as tx:
        for age in (31, 29):
            at = NOON + HOUR - timedelta(days=age)
            await Change(tx, at).record("landed", replace(entry(age), enqueued_at=at), data={"queue": 0, "front": 0})
    await TableLimits(engine_on(store), timeline_kept=timedelta(days=30)).purge(cast(Job, None))
    async with store.reading() as tx:
        assert await tx.departures.of_pull_request(REPOSITORY.id, 31) == ()
        assert len(await tx.departures.of_pull_request(REPOSITORY.id, 29)) == 1


async def test_sums_of_stored_departures_are_those_that_later_ones_change(empty_database: Database) -> None:
    """The migration adds up what is stored; a departure after it is added to that."""
    await migrate(empty_database, "0036")
    store = Store(empty_database)
    every = [departure(1), departure(2, reason=Reason.CONFLICT, outcome=EntryStatus.FAILED), departure(3, number=2)]
    async with store.transaction() as tx:
        for each in every:
            row = {name: getattr(each, name) for name in Departure.__dataclass_fields__}
            row |= {"flaky": None, "is_last": each.id > 1, "day": day_of(each.left_at)}
            await tx.connection.execute(departures.insert(), row)
    await migrate(empty_database)
    async with store.transaction() as tx:
        assert await stored_sums(tx) == await sums(tx)
        await tx.departures.put(departure(4))
        assert await stored_sums(tx) == await sums(tx)
