"""Lost deliveries: which ones IMQ has redelivered, how many a minute, and since when."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.facts import Delivery
from queue_engine.domain.port import GitHub
from queue_engine.effects.context import Engine
from queue_engine.handlers.lost_deliveries import (
    DELIVERIES,
    DELIVERIES_JOB,
    PAGES_A_MINUTE,
    PER_MINUTE,
    LostDeliveries,
    Progress,
)
from queue_engine.store import Store
from tests.store.examples import LEASE, NOW
from tests.support.policies import StaticPolicies

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
FIRST = timedelta(minutes=20)
APART = timedelta(seconds=30)


class Clock:
    """Moved by hand."""

    def __init__(self) -> None:
        self.at = NOW

    def now(self) -> datetime:
        return self.at

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("nobody sleeps here")


class Hooks:
    """GitHub's list of attempts, in pages, and what it was asked to send again."""

    def __init__(self) -> None:
        self.attempts: list[Delivery] = []
        self.asked: list[int] = []
        self.pages = 0
        self.page = 100
        self.failing = set[int]()

    async def deliveries(self, cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        self.pages += 1
        start = int(cursor or 0)
        newest = sorted(self.attempts, key=lambda each: -each.id)
        end = start + self.page
        return tuple(newest[start:end]), str(end) if end < len(newest) else None

    async def redeliver(self, number: int) -> None:
        if number in self.failing:
            raise Unavailable("Service unavailable", status=503)
        self.asked.append(number)


class RecordedSweeps:
    """A process that sweeps lost deliveries."""

    def __init__(self, database: Database, clock: Clock, hooks: Hooks) -> None:
        self.store, self.clock, self.hooks = Store(database), clock, hooks
        engine = Engine(self.store, cast(GitHub, hooks), clock, StaticPolicies(Policy()), lambda: 0.5, "test")
        self.redelivery = LostDeliveries(
            engine, first=FIRST, apart=APART, matters=lambda event, action: action != "created"
        )

    async def minute(self) -> bool:
        """Do the job that is due, if one is."""
        async with self.store.transaction() as tx:
            jobs = await tx.jobs.claim_some(9, owner="t", now=self.clock.at, lease=LEASE)
            await tx.jobs.finish(jobs)
        for job in jobs:
            await self.redelivery.sweep(job)
        return bool(jobs)

    async def sweep(self) -> None:
        """Run a sweep from its beginning to its end."""
        await self.redelivery.request()
        while await self.minute():
            self.clock.at += MINUTE


@pytest.fixture
def hooks() -> Hooks:
    return Hooks()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def sweeps(sqlite_database: Database, clock: Clock, hooks: Hooks) -> RecordedSweeps:
    return RecordedSweeps(sqlite_database, clock, hooks)


def attempt(
    number: int, *, ok: bool = False, of: int | None = None, at: datetime = NOW, event: str = "push"
) -> Delivery:
    """An attempt; `of` is the first attempt of the same delivery."""
    return Delivery(number, f"guid-{of or number}", at, of is not None, ok, event, None)


async def test_delivery_without_any_successful_attempt_is_asked_for_again(sweeps: RecordedSweeps, hooks: Hooks) -> None:
    """What was answered is not, whichever of its attempts it was, nor what was stored although its answer was lost."""
    lost, answered_later, answered = attempt(1), attempt(2), attempt(3, ok=True)
    hooks.attempts = [lost, answered_later, answered, attempt(4, ok=True, of=2), attempt(5)]
    async with sweeps.store.transaction() as tx:
        await tx.keys.record(DELIVERIES, [("guid-5", "push")], NOW)
    await sweeps.sweep()
    assert hooks.asked == [1]


async def test_delivery_that_means_nothing_to_a_queue_is_never_asked_for(sweeps: RecordedSweeps, hooks: Hooks) -> None:
    """P7: hundreds of lost check runs that only began kept a sweep busy."""
    hooks.attempts = [replace(attempt(1, event="check_run"), action="created")]
    await sweeps.sweep()
    assert hooks.asked == []


async def test_lost_deliveries_are_asked_for_a_few_a_minute_and_pull_requests_first(
    sweeps: RecordedSweeps, hooks: Hooks
) -> None:
    """P7: many lost deliveries occupy no worker for minutes: each job requests a few, and the next one the rest."""
    hooks.attempts = [attempt(n) for n in range(1, PER_MINUTE + 6)] + [attempt(900, event="pull_request")]
    await sweeps.redelivery.request()
    await sweeps.minute()
    assert hooks.asked == [900, *range(1, PER_MINUTE)]
    assert not await sweeps.minute(), "the rest is for the next minute"
    sweeps.clock.at += MINUTE
    assert await sweeps.minute()
    assert hooks.asked == [900, *range(1, PER_MINUTE + 6)]


async def test_sweep_requested_during_another_follows_it(sweeps: RecordedSweeps, hooks: Hooks) -> None:
    """A delivery that is lost during a sweep of several minutes is found by the sweep that follows."""
    hooks.attempts = [attempt(n) for n in range(1, PER_MINUTE + 6)]
    await sweeps.redelivery.request()
    await sweeps.minute()
    hooks.attempts = [attempt(900)]
    await sweeps.redelivery.request()
    for _ in range(2):
        sweeps.clock.at += MINUTE
        assert await sweeps.minute()
    assert hooks.asked[-1] == 900
    sweeps.clock.at += MINUTE
    assert not await sweeps.minute()


async def test_sweeps_begin_some_time_apart_however_often_they_are_requested(
    sweeps: RecordedSweeps, hooks: Hooks
) -> None:
    """P7: processes that are started again and again ask for one each time."""
    await sweeps.redelivery.request()
    assert await sweeps.minute()
    for _ in range(3):
        await sweeps.redelivery.request()
        assert not await sweeps.minute()
    sweeps.clock.at += APART
    assert await sweeps.minute()
    assert not await sweeps.minute()
    assert hooks.pages == 2


async def test_long_list_is_read_a_few_pages_a_minute(sweeps: RecordedSweeps, hooks: Hooks) -> None:
    """P7; an attempt that succeeded counts for its earlier one, however many pages are between them."""
    hooks.page = 1
    hooks.attempts = [
        attempt(1),
        *(attempt(n, ok=True) for n in range(2, 2 * PAGES_A_MINUTE)),
        attempt(99, ok=True, of=1),
    ]
    await sweeps.redelivery.request()
    await sweeps.minute()
    assert hooks.pages == PAGES_A_MINUTE
    sweeps.clock.at += MINUTE
    await sweeps.minute()
    sweeps.clock.at += MINUTE
    await sweeps.minute()
    assert (hooks.pages, hooks.asked) == (2 * PAGES_A_MINUTE, [])


async def test_next_sweep_begins_where_the_last_one_that_came_to_its_end_began(
    sweeps: RecordedSweeps, hooks: Hooks, clock: Clock, sqlite_database: Database
) -> None:
    """After an outage of hours any process finds all lost deliveries, and reads no older ones again."""
    hooks.attempts = [attempt(1, at=NOW - HOUR)]
    await sweeps.sweep()
    assert hooks.asked == [], "the first sweep of all goes back no further than its setting"
    hooks.attempts += [attempt(2, at=NOW + HOUR)]
    clock.at = NOW + 10 * HOUR
    await RecordedSweeps(sqlite_database, clock, hooks).sweep()
    assert hooks.asked == [2]


@pytest.mark.parametrize(("before", "asked"), [(MINUTE, [1]), (MINUTE + timedelta(seconds=1), [])])
async def test_delivery_on_its_way_at_the_last_sweep_is_found_by_the_next(
    sweeps: RecordedSweeps, hooks: Hooks, before: timedelta, asked: list[int]
) -> None:
    """GitHub lists it when it has been tried, with the time at which it happened."""
    await sweeps.sweep()
    hooks.attempts = [attempt(1, at=NOW - before)]
    sweeps.clock.at = NOW + HOUR
    await sweeps.sweep()
    assert hooks.asked == asked


def test_delivery_that_succeeded_at_once_is_not_remembered() -> None:
    """Most attempts succeed: the job that continues a sweep over three days has few bytes."""
    progress = Progress(since=NOW, begun=NOW)
    for each in (attempt(3, ok=True), attempt(2, ok=True, of=1)):
        progress.add(each, lambda event, action: True)
    assert progress.settled == {"guid-1"}


async def test_sweep_that_failed_is_no_last_sweep(sweeps: RecordedSweeps, hooks: Hooks, clock: Clock) -> None:
    """The next one goes back as far as this one was to."""
    await sweeps.sweep()

    async def broken(cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        raise RuntimeError("GitHub is away")

    hooks.attempts, whole = [attempt(1, at=NOW + HOUR)], hooks.deliveries
    hooks.deliveries = broken  # type: ignore[method-assign]
    clock.at = NOW + 2 * HOUR
    with pytest.raises(RuntimeError):
        await sweeps.sweep()
    hooks.deliveries = whole  # type: ignore[method-assign]
    clock.at = NOW + 20 * HOUR
    await sweeps.sweep()
    assert hooks.asked == [1]


async def test_delivery_that_is_refused_each_time_is_asked_for_six_times(
    sweeps: RecordedSweeps, hooks: Hooks, clock: Clock, sqlite_database: Database
) -> None:
    """P7: a restart forgets nothing of it."""
    for number in range(1, 11):
        clock.at = NOW + number * HOUR
        hooks.attempts.append(attempt(number, of=None if number == 1 else 1, at=clock.at))
        await RecordedSweeps(sqlite_database, clock, hooks).sweep()
    assert hooks.asked == [1, 2, 3, 4, 5, 6]


async def test_request_that_failed_is_not_counted_and_keeps_no_other_from_being_sent(
    sweeps: RecordedSweeps, hooks: Hooks
) -> None:
    """P2: however often GitHub fails, the delivery is requested when it works again."""
    hooks.attempts, hooks.failing = [attempt(1), attempt(2)], {1}
    for _ in range(10):
        with pytest.raises(Unavailable):
            await sweeps.sweep()
    hooks.failing.clear()
    await sweeps.sweep()
    assert (hooks.asked.count(1), hooks.asked[0]) == (1, 2)


async def test_second_request_during_a_sweep_adds_none(sweeps: RecordedSweeps) -> None:
    """The sweep under way continues; the dead letter of a former sweep is discarded."""
    await sweeps.redelivery.request()
    await sweeps.redelivery.request()
    async with sweeps.store.transaction() as tx:
        assert len(await tx.jobs.unfinished(DELIVERIES_JOB)) == 1


async def test_attempt_that_was_listed_during_a_sweep_of_minutes_is_found_by_the_next(
    sweeps: RecordedSweeps, hooks: Hooks
) -> None:
    """The next sweep begins where this one began, not where it ended."""
    hooks.attempts = [attempt(n) for n in range(1, 4 * PER_MINUTE)]
    await sweeps.sweep()
    hooks.attempts = [attempt(900, at=NOW + MINUTE)]
    sweeps.clock.at += HOUR
    await sweeps.sweep()
    assert hooks.asked[-1] == 900


async def test_sweep_goes_back_no_further_than_deliveries_are_known_to_have_arrived(
    sweeps: RecordedSweeps, hooks: Hooks
) -> None:
    """What was stored longer ago is forgotten, and would be done again."""
    await sweeps.sweep()
    sweeps.clock.at += 3 * KEPT
    oldest = sweeps.clock.at - KEPT
    hooks.attempts = [attempt(1, at=oldest - MINUTE), attempt(2, at=oldest)]
    await sweeps.sweep()
    assert hooks.asked == [2]
