"""Departures: stored once each, the last of each pull request marked, purged by age, completed from the timeline."""

import random
from collections import defaultdict
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason, WaitKind
from queue_engine.store import Store, Transaction
from queue_engine.store.departures import day_of
from queue_engine.store.tables import departure_days, departures
from tests.store.examples import NOW, OTHER, REPOSITORY, SOON

FLAKY = RerunCheck("ci", ("unit", "lint"), 2, None, 12.5)
DEPARTURE = Departure(
    id=5,
    entry_id="e1",
    repository_id=REPOSITORY.id,
    base_branch="main",
    number=1,
    title="Äpfel, = und 'Birnen'",
    author="ada",
    enqueued_at=NOW - SOON,
    left_at=NOW,
    outcome=EntryStatus.FAILED,
    reason=Reason.CHECKS_FAILED,
    waited=10.0,
    capacity=4.0,
    checks=3.0,
    paused=2.0,
    base_red=0.5,
    other=0.5,
    ci_seconds=33.25,
    reruns=2,
    flaky=(FLAKY,),
)
LANDED = replace(
    DEPARTURE, id=9, title=None, author=None, outcome=EntryStatus.LANDED, reason=None, ci_seconds=None, flaky=()
)

KEY = ("day", "repository_id", "base_branch", "outcome", "reason")
SUMS = ("departures", "pulls", "waited", *WaitKind, "ci_seconds", "ci_known", "reruns")
DAY = timedelta(days=1)


def departure(event_id: int, **others: Any) -> Departure:
    return replace(LANDED, id=event_id, **others)


async def last(tx: Transaction) -> set[int]:
    """The departures that are the last of their pull request."""
    found = await tx.connection.execute(departures.select().where(departures.c.is_last))
    return {row.id for row in found}


async def stored_sums(tx: Transaction) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """The sums of each queue, day, outcome and reason."""
    found = (await tx.connection.execute(departure_days.select())).mappings()
    return {tuple(row[each] for each in KEY): tuple(row[each] for each in SUMS) for row in found}


async def sums(tx: Transaction) -> dict[tuple[Any, ...], tuple[float, ...]]:
    """The same, added up from the departures."""
    added: dict[tuple[Any, ...], list[float]] = defaultdict(lambda: [0] * len(SUMS))
    for row in (await tx.connection.execute(departures.select())).mappings():
        known = row["ci_seconds"] is not None
        values = {**row, "reason": row["reason"] or "", "ci_seconds": row["ci_seconds"] or 0}
        values |= {"departures": 1, "pulls": row["is_last"], "ci_known": known}
        key = tuple(values[each] for each in KEY)
        added[key] = [was + values[name] for was, name in zip(added[key], SUMS, strict=True)]
    return {key: tuple(found) for key, found in added.items()}


async def test_departure_comes_back_as_it_was_stored(store: Store) -> None:
    """Every field, also those that earlier releases did not keep."""
    async with store.transaction() as tx:
        for each in (DEPARTURE, LANDED):
            await tx.departures.put(each)
            await tx.departures.put(each)
    async with store.reading() as tx:
        assert await tx.departures.of_pull_request(REPOSITORY.id, 1) == (DEPARTURE, LANDED)
        assert await tx.departures.of_pull_request(OTHER.id, 1) == ()


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2)])
async def test_last_departure_of_each_pull_request_from_each_queue_is_marked(
    store: Store, order: tuple[int, ...]
) -> None:
    """In whatever order they are stored: an earlier one may be derived from the timeline later."""
    others = [
        departure(10, number=2),
        departure(11, base_branch="next"),
        departure(12, repository_id=OTHER.id),
    ]
    async with store.transaction() as tx:
        for each in (*(departure(event_id) for event_id in order), *others):
            await tx.departures.put(each)
        assert await last(tx) == {3, 10, 11, 12}


async def test_departures_of_others_are_found_by_their_instants(store: Store) -> None:
    """Both ends count; those of other branches and repositories do not."""
    times = [NOW + each * SOON for each in range(4)]
    async with store.transaction() as tx:
        for index, at in enumerate(times):
            await tx.departures.put(departure(index, left_at=at))
        await tx.departures.put(departure(7, left_at=times[1], base_branch="next"))
        await tx.departures.put(departure(8, left_at=times[1], repository_id=OTHER.id))
        assert await tx.departures.left(REPOSITORY.id, "main", times[1], times[2]) == (times[2], times[1])


async def test_purge_deletes_the_oldest_departures_first(store: Store) -> None:
    """At most so many at once, and none of the day of the instant itself."""
    async with store.transaction() as tx:
        for index in range(4):
            await tx.departures.put(departure(index, number=index, left_at=NOW + index * DAY))
        assert await tx.departures.purge(NOW + 3 * DAY + SOON, at_most=2) == 2
        assert await last(tx) == {2, 3}
        assert await tx.departures.purge(NOW + 3 * DAY + SOON, at_most=9) == 1
        assert await last(tx) == {3}


@pytest.mark.parametrize("seed", range(3))
async def test_sums_of_the_days_are_those_of_their_departures(store: Store, seed: int) -> None:
    """Whichever departure is stored first, however often, and after a purge that stops half-way."""
    chance = random.Random(seed)
    every = [
        departure(
            event_id,
            number=chance.randint(1, 6),
            base_branch=chance.choice(("main", "next")),
            left_at=NOW - chance.randint(0, 5) * DAY,
            outcome=(outcome := chance.choice((EntryStatus.LANDED, EntryStatus.FAILED))),
            reason=None if outcome is EntryStatus.LANDED else chance.choice((Reason.CONFLICT, Reason.CHECKS_FAILED)),
            waited=float(event_id),
            ci_seconds=chance.choice((None, 7.0)),
        )
        for event_id in range(1, 41)
    ]
    for each in chance.sample(every, len(every)):
        async with store.transaction() as tx:
            for _ in range(chance.randint(1, 2)):
                await tx.departures.put(each)
    async with store.transaction() as tx:
        assert await stored_sums(tx) == await sums(tx)
        kept = {key: row for key, row in (await stored_sums(tx)).items() if key[0] >= day_of(NOW - 2 * DAY)}
        assert await tx.departures.purge(NOW - 2 * DAY, at_most=3) == 3
        assert kept.items() < (await stored_sums(tx)).items()
        assert await tx.departures.purge(NOW - 2 * DAY, at_most=99) > 0
        assert await stored_sums(tx) == await sums(tx) == kept
        assert await tx.departures.purge(NOW + 2 * DAY, at_most=99) > 0
        assert await stored_sums(tx) == {}
