"""Lost deliveries: which ones IMQ has redelivered, how many a minute, and since when."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import cast

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.domain.facts import Delivery
from queue_engine.domain.policy import Policy
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

    async def deliveries(self, cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        self.pages += 1
        start = int(cursor or 0)
        newest = sorted(self.attempts, key=lambda each: -each.id)
        end = start + self.page
        return tuple(newest[start:end]), str(end) if end < len(newest) else None

    async def redeliver(self, number: int) -> None:
        self.asked.append(number)


class Looks:
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
def looks(sqlite_database: Database, clock: Clock, hooks: Hooks) -> Looks:
    return Looks(sqlite_database, clock, hooks)


def attempt(
    number: int, *, ok: bool = False, of: int | None = None, at: datetime = NOW, event: str = "push"
) -> Delivery:
    """An attempt; `of` is the first attempt of the same delivery."""
    return Delivery(number, f"guid-{of or number}", at, of is not None, ok, event, None)


async def test_delivery_without_any_successful_attempt_is_asked_for_again(looks: Looks, hooks: Hooks) -> None:
    """What was answered is not, whichever of its attempts it was, nor what was stored although its answer was lost."""
    lost, answered_later, answered = attempt(1), attempt(2), attempt(3, ok=True)
    hooks.attempts = [lost, answered_later, answered, attempt(4, ok=True, of=2), attempt(5)]
    async with looks.store.transaction() as tx:
        await tx.keys.record(DELIVERIES, [("guid-5", "push")], NOW)
    await looks.sweep()
    assert hooks.asked == [1]


async def test_delivery_that_means_nothing_to_a_queue_is_never_asked_for(looks: Looks, hooks: Hooks) -> None:
    """P7: hundreds of lost check runs that only began kept a sweep busy."""
    hooks.attempts = [replace(attempt(1, event="check_run"), action="created")]
    await looks.sweep()
    assert hooks.asked == []


async def test_lost_deliveries_are_asked_for_a_few_a_minute_and_pull_requests_first(looks: Looks, hooks: Hooks) -> None:
    """P7: many lost deliveries occupy no worker for minutes: each job requests a few, and the next one the rest."""
    hooks.attempts = [attempt(n) for n in range(1, PER_MINUTE + 6)] + [attempt(900, event="pull_request")]
    await looks.redelivery.request()
    await looks.minute()
    assert hooks.asked == [900, *range(1, PER_MINUTE)]
    assert not await looks.minute(), "the rest is for the next minute"
    looks.clock.at += MINUTE
    assert await looks.minute()
    assert hooks.asked == [900, *range(1, PER_MINUTE + 6)]


async def test_look_wished_for_while_one_goes_on_follows_it(looks: Looks, hooks: Hooks) -> None:
    """A delivery that is lost during a sweep of several minutes is found by the sweep that follows."""
    hooks.attempts = [attempt(n) for n in range(1, PER_MINUTE + 6)]
    await looks.redelivery.request()
    await looks.minute()
    hooks.attempts = [attempt(900)]
    await looks.redelivery.request()
    for _ in range(2):
        looks.clock.at += MINUTE
        assert await looks.minute()
    assert hooks.asked[-1] == 900
    looks.clock.at += MINUTE
    assert not await looks.minute()


async def test_looks_begin_some_time_apart_however_often_they_are_wished_for(looks: Looks, hooks: Hooks) -> None:
    """P7: processes that are started again and again ask for one each time."""
    await looks.redelivery.request()
    assert await looks.minute()
    for _ in range(3):
        await looks.redelivery.request()
        assert not await looks.minute()
    looks.clock.at += APART
    assert await looks.minute()
    assert not await looks.minute()
    assert hooks.pages == 2


async def test_long_list_is_read_a_few_pages_a_minute(looks: Looks, hooks: Hooks) -> None:
    """P7; an attempt that succeeded counts for its earlier one, however many pages are between them."""
    hooks.page = 1
    hooks.attempts = [
        attempt(1),
        *(attempt(n, ok=True) for n in range(2, 2 * PAGES_A_MINUTE)),
        attempt(99, ok=True, of=1),
    ]
    await looks.redelivery.request()
    await looks.minute()
    assert hooks.pages == PAGES_A_MINUTE
    looks.clock.at += MINUTE
    await looks.minute()
    looks.clock.at += MINUTE
    await looks.minute()
    assert (hooks.pages, hooks.asked) == (2 * PAGES_A_MINUTE, [])


async def test_next_look_begins_where_the_last_one_that_came_to_its_end_began(
    looks: Looks, hooks: Hooks, clock: Clock, sqlite_database: Database
) -> None:
    """After an outage of hours any process finds all lost deliveries, and reads no older ones again."""
    hooks.attempts = [attempt(1, at=NOW - HOUR)]
    await looks.sweep()
    assert hooks.asked == [], "the first look of all goes back no further than it was told to"
    hooks.attempts += [attempt(2, at=NOW + HOUR)]
    clock.at = NOW + 10 * HOUR
    await Looks(sqlite_database, clock, hooks).sweep()
    assert hooks.asked == [2]


@pytest.mark.parametrize(("before", "asked"), [(MINUTE, [1]), (MINUTE + timedelta(seconds=1), [])])
async def test_delivery_on_its_way_at_the_last_look_is_found_by_the_next(
    looks: Looks, hooks: Hooks, before: timedelta, asked: list[int]
) -> None:
    """GitHub lists it when it has been tried, with the time at which it happened."""
    await looks.sweep()
    hooks.attempts = [attempt(1, at=NOW - before)]
    looks.clock.at = NOW + HOUR
    await looks.sweep()
    assert hooks.asked == asked


def test_delivery_that_succeeded_at_once_is_not_remembered() -> None:
    """Most attempts succeed: the job that continues a sweep over three days has few bytes."""
    progress = Progress(since=NOW, begun=NOW)
    for each in (attempt(3, ok=True), attempt(2, ok=True, of=1)):
        progress.add(each, lambda event, action: True)
    assert progress.settled == {"guid-1"}


async def test_look_that_failed_is_no_last_look(looks: Looks, hooks: Hooks, clock: Clock) -> None:
    """The next one goes back as far as this one was to."""
    await looks.sweep()

    async def broken(cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        raise RuntimeError("GitHub is away")

    hooks.attempts, whole = [attempt(1, at=NOW + HOUR)], hooks.deliveries
    hooks.deliveries = broken  # type: ignore[method-assign]
    clock.at = NOW + 2 * HOUR
    with pytest.raises(RuntimeError):
        await looks.sweep()
    hooks.deliveries = whole  # type: ignore[method-assign]
    clock.at = NOW + 20 * HOUR
    await looks.sweep()
    assert hooks.asked == [1]


async def test_delivery_that_is_refused_each_time_is_asked_for_three_times(
    looks: Looks, hooks: Hooks, clock: Clock, sqlite_database: Database
) -> None:
    """P7: a restart forgets nothing of it."""
    for number in range(1, 8):
        clock.at = NOW + number * HOUR
        hooks.attempts.append(attempt(number, of=None if number == 1 else 1, at=clock.at))
        await Looks(sqlite_database, clock, hooks).sweep()
    assert hooks.asked == [1, 2, 3]


async def test_second_wish_for_a_look_while_one_is_under_way_asks_for_nothing(looks: Looks) -> None:
    """The sweep under way continues; the dead letter of a former sweep is discarded."""
    await looks.redelivery.request()
    await looks.redelivery.request()
    async with looks.store.transaction() as tx:
        assert len(await tx.jobs.unfinished(DELIVERIES_JOB)) == 1


async def test_attempt_that_was_listed_while_a_look_of_minutes_went_on_is_found_by_the_next(
    looks: Looks, hooks: Hooks
) -> None:
    """The next sweep begins where this one began, not where it ended."""
    hooks.attempts = [attempt(n) for n in range(1, 4 * PER_MINUTE)]
    await looks.sweep()
    hooks.attempts = [attempt(900, at=NOW + MINUTE)]
    looks.clock.at += HOUR
    await looks.sweep()
    assert hooks.asked[-1] == 900


async def test_look_goes_back_no_further_than_deliveries_are_known_to_have_arrived(looks: Looks, hooks: Hooks) -> None:
    """What was stored longer ago is forgotten, and would be done again."""
    await looks.sweep()
    looks.clock.at += 3 * KEPT
    oldest = looks.clock.at - KEPT
    hooks.attempts = [attempt(1, at=oldest - MINUTE), attempt(2, at=oldest)]
    await looks.sweep()
    assert hooks.asked == [2]
