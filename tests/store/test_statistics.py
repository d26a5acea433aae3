"""Statistics add up the departures of a period, on both databases."""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta
from math import ceil
from statistics import mean
from typing import Any

import pytest
from sqlalchemy.dialects import sqlite

from queue_engine.config.model import CheckRules, Policy
from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.policy import RerunLimit
from queue_engine.domain.reasons import Reason, WaitKind
from queue_engine.queries.queue_statistics import RerunCount, date_of, load_statistics, period
from queue_engine.store import Store, departures
from queue_engine.store.departures import CheckCount, DepartureQuery, day_of
from tests.store.examples import NOW, OTHER, REPOSITORY
from tests.store.test_departures import LANDED

DAY = timedelta(days=1)
OUTCOMES: dict[str, list[Reason | None]] = {
    "landed": [None],
    "failed": [Reason.CHECKS_FAILED, Reason.CONFLICT],
    "cancelled": [Reason.CLOSED],
}


def asked(days: int, **more: object) -> DepartureQuery:
    return replace(DepartureQuery(*period(NOW, days)), **more)  # type: ignore[arg-type]


def random_departures(seed: int) -> list[Departure]:
    chance = random.Random(seed)
    found = []
    for event in range(1, 81):
        outcome = EntryStatus(chance.choice(list(OUTCOMES)))
        found.append(
            replace(
                LANDED,
                id=event,
                repository_id=chance.choice((REPOSITORY.id, OTHER.id)),
                base_branch=chance.choice(("main", "next")),
                number=chance.randint(1, 30),
                left_at=NOW - (80 - event) * DAY / 2 - chance.random() * DAY / 3,
                outcome=outcome,
                reason=chance.choice(OUTCOMES[outcome.value]),
                waited=chance.uniform(1, 9999),
                ci_seconds=chance.choice((None, 60.0, 90.0)),
                reruns=chance.randint(0, 2),
            )
        )
    return found


async def put(store: Store, departures: Sequence[Departure]) -> None:
    async with store.transaction() as tx:
        for each in departures:
            await tx.departures.put(each)


@pytest.mark.parametrize("scope", [{}, {"repository_ids": frozenset({7}), "base_branch": "main"}])
@pytest.mark.parametrize("days", [1, 20])
async def test_statistics_are_those_of_the_departures_in_the_period(
    store: Store, days: int, scope: dict[str, object]
) -> None:
    """Compared with sums over plain lists; a pull request that left twice has one reason."""
    every = random_departures(days)
    await put(store, every)
    query = asked(days, **scope)
    inside = [
        each
        for each in every
        if date_of(query.first_day) <= each.left_at.date() <= NOW.date()
        and (not scope or (each.repository_id, each.base_branch) == (7, "main"))
    ]
    landed = [each for each in inside if each.outcome is EntryStatus.LANDED]
    last = {(each.repository_id, each.base_branch, each.number): each for each in inside}
    async with store.reading() as tx:
        found = await load_statistics(tx, query)
    assert found.landed == len(landed) == sum(each.landed for each in found.landings)
    assert len(found.landings) == days
    waits = sorted(each.waited for each in landed)
    for share, figure in ((0.5, found.median_wait), (0.95, found.p95_wait)):
        assert figure == (waits[ceil(share * len(waits)) - 1] if waits else None)
    for kind in WaitKind if landed else ():
        assert found.mean_wait[kind] == pytest.approx(mean(getattr(each, kind.value) for each in landed))
    reasons = Counter((each.outcome, each.reason) for each in last.values())
    assert {(each.outcome, each.reason): each.pulls for each in found.reasons} == reasons
    assert found.reruns == sum(each.reruns for each in inside)
    known = [each for each in inside if each.ci_seconds is not None]
    assert found.ci_seconds == (sum(each.ci_seconds or 0 for each in known) if known else None)
    landings = [each for each in known if each.outcome is EntryStatus.LANDED]
    assert found.ci_seconds_per_landing == ((found.ci_seconds or 0) / len(landings) if landings else None)
    failed = sum(each.outcome is EntryStatus.FAILED for each in last.values())
    left = sum(each.outcome is not EntryStatus.CANCELLED for each in last.values())
    assert found.health.failures.figure == (failed / left if left else None)


async def test_flaky_checks_and_jobs_are_added_up_by_name(store: Store) -> None:
    """A check without further jobs is its own job; the cost of a check is divided among its jobs."""
    checks = [
        RerunCheck("ci", ("unit", "e2e"), 1, 60.0, 10.0),
        RerunCheck("lint", (), 2, None, 4.0),
    ]
    await put(store, [replace(LANDED, id=1, flaky=tuple(checks)), replace(LANDED, id=2, number=2, flaky=(checks[0],))])
    async with store.reading() as tx:
        found = await load_statistics(tx, asked(1))
        listed = {
            (check, job): [
                each.id for each in await tx.statistics.listed(asked(1, check=check, job=job), before=None, limit=9)
            ]
            for check, job in (("ci", None), ("lint", None), (None, "e2e"), (None, "ci"), (None, "lint"))
        }
    today: dict[str, Any] = {"people": 1, "first_day": NOW.date()}
    assert found.flaky_checks == (
        RerunCount("ci", 2, 2, 120.0, 20.0, **today),
        RerunCount("lint", 1, 2, None, 4.0, **today),
    )
    assert found.flaky_jobs == (
        RerunCount("e2e", 2, 2, 60.0, 10.0, **today),
        RerunCount("unit", 2, 2, 60.0, 10.0, **today),
        RerunCount("lint", 1, 2, None, 4.0, **today),
    )
    assert listed == {
        ("ci", None): [2, 1],
        ("lint", None): [1],
        (None, "e2e"): [2, 1],
        (None, "ci"): [],
        (None, "lint"): [1],
    }


async def test_flaky_checks_count_once_for_each_departure_in_the_queues_and_days_asked_for(store: Store) -> None:
    """Two checks share a job; a departure stored twice counts once; purged days have no sums."""
    checks = (RerunCheck("ci", ("unit",), 1, 60.0, 10.0), RerunCheck("unit", (), 1, None, 4.0))
    mine = replace(LANDED, id=1, flaky=checks)
    of_other = replace(mine, id=2, number=2, base_branch="next", left_at=NOW - 3 * DAY)
    await put(store, [mine, mine, of_other])
    async with store.reading() as tx:
        of_one, today, of_all = [
            await load_statistics(tx, query)
            for query in (
                asked(9, repository_ids=frozenset({LANDED.repository_id}), base_branch="next"),
                asked(1),
                asked(9),
            )
        ]
    [job] = of_one.flaky_jobs
    alike = RerunCount("unit", 1, 2, 60.0, 14.0, people=1, first_day=NOW.date())
    assert today.flaky_jobs == (alike,)
    assert of_one.flaky_jobs == (replace(alike, first_day=(NOW - 3 * DAY).date()),)
    assert [(each.name, each.pulls) for each in of_all.flaky_checks] == [("ci", 2), ("unit", 2)]
    assert of_all.flaky_jobs == (
        replace(job, pulls=2, reruns=2 * job.reruns, ci_seconds=120.0, waited=28.0, first_day=job.first_day),
    )
    async with store.transaction() as tx:
        await tx.departures.purge(NOW - DAY, at_most=9)
    async with store.reading() as tx:
        assert (await load_statistics(tx, asked(9))).flaky_jobs == today.flaky_jobs


async def test_checks_are_counted_on_trees_that_passed_with_their_rate_trend_and_end_of_listing(store: Store) -> None:
    """A check that ran and never failed is no row; one that is listed as flaky is one, also without a flake."""
    flaky = replace(LANDED, id=1, flaky=(RerunCheck("ci", (), 1, 60.0, 10.0),))
    before = replace(flaky, id=2, number=2, author="rhea", left_at=NOW - 8 * DAY)
    await put(store, [flaky, before, replace(before, id=3, number=3)])
    counted = (CheckCount("ci", 40, 4), CheckCount("lint", 40, 0))
    async with store.transaction() as tx:
        await tx.statistics.count_checks(LANDED.repository_id, LANDED.base_branch, day_of(NOW), counted)
        await tx.statistics.count_checks(LANDED.repository_id, LANDED.base_branch, day_of(NOW), counted[:1])
    listed = (RerunLimit("ci", date(2026, 2, 1)), RerunLimit("gone", date(2025, 1, 1)))
    async with store.reading() as tx:
        found = await load_statistics(tx, asked(7), policy=Policy(checks=CheckRules(flaky=listed)))
    [ci, gone] = found.flaky_checks
    assert (ci.runs, ci.failures, ci.pulls, ci.pulls_before, ci.people) == (80, 8, 1, 2, 1)
    assert ci.rate == pytest.approx((0.019 * 25 + 8) / 105)
    assert (ci.listed_until, gone.listed_until, gone.pulls) == (date(2026, 2, 1), date(2025, 1, 1), 0)


async def test_long_periods_count_by_week(store: Store) -> None:
    """The last week ends today, the first one may be shorter, and no day is missing or counted twice."""
    await put(store, [replace(LANDED, id=day, number=day, left_at=NOW - day * DAY) for day in range(1, 100)])
    async with store.reading() as tx:
        found = await load_statistics(tx, asked(100))
        nothing = await load_statistics(tx, asked(100, repository_ids=frozenset()))
    assert found.landings[-1].last == found.last == NOW.date()
    assert found.landings[0].first == found.first == NOW.date() - 99 * DAY
    assert [each.landed for each in found.landings] == [2, *[7] * 13, 6]
    assert all(later.first - each.last == DAY for each, later in zip(found.landings, found.landings[1:], strict=False))
    assert (nothing.landed, nothing.pulls, nothing.median_wait) == (0, 0, None)


async def test_requests_add_up_by_repository_and_day(store: Store) -> None:
    """A queue shows those of its whole repository. Landings from before the first count are not divided by them."""
    await put(store, [replace(LANDED, id=number, number=number, left_at=NOW - number * DAY) for number in range(1, 9)])
    today = day_of(NOW)
    async with store.transaction() as tx:
        for day, counts in ((today - 3, {LANDED.repository_id: 20, 99: 7}), (today, {LANDED.repository_id: 4})):
            await tx.statistics.count_requests(day, counts)
        await tx.statistics.count_requests(today, {LANDED.repository_id: 6})
    async with store.reading() as tx:
        of_all = await load_statistics(tx, asked(7))
        scope = {"repository_ids": frozenset({LANDED.repository_id}), "base_branch": "another"}
        of_one = await load_statistics(tx, asked(7, **scope))
        before = await load_statistics(tx, replace(asked(7), last_day=today - 4))
    assert of_all.requests == 37
    assert of_all.requests_per_landing == pytest.approx(37 / 3)
    assert (of_one.landed, of_one.requests) == (0, 30)
    assert of_one.requests_per_landing == pytest.approx(10)
    assert (before.requests, before.requests_per_landing) == (None, None)


async def test_counts_of_requests_are_deleted_with_the_departures(store: Store) -> None:
    """Statistics are kept as long as the operator says, whole days of them."""
    await put(store, [LANDED])
    async with store.transaction() as tx:
        await tx.statistics.count_requests(day_of(LANDED.left_at), {LANDED.repository_id: 3})
        await tx.departures.purge(NOW + DAY, at_most=10)
    async with store.reading() as tx:
        assert (await load_statistics(tx, asked(7))).requests is None


async def listed(store: Store, query: DepartureQuery, limit: int) -> list[int]:
    """The ids of a whole list, page by page."""
    found: list[int] = []
    while True:
        async with store.reading() as tx:
            page = await tx.statistics.listed(query, before=found[-1] if found else None, limit=limit)
        assert len(page) <= limit
        found += [each.id for each in page]
        if len(page) < limit:
            return found


@pytest.mark.parametrize(
    "scope",
    [{}, {"outcome": EntryStatus.LANDED}, {"repository_ids": frozenset({7}), "base_branch": "main"}],
)
async def test_list_has_each_departure_once_although_the_clock_was_set_back(
    store: Store, scope: dict[str, object]
) -> None:
    """The days decide, and within a day the numbers of the events: the same order on each page."""
    days = [9, 9, 5, 5, 5, 7, 7, 5, 3, 3]
    put_in = [replace(LANDED, id=n + 1, number=n + 1, left_at=NOW - day * DAY) for n, day in enumerate(days)]
    await put(store, put_in)
    query = asked(30, **scope)
    for limit in (1, 2, 3, 20):
        found = await listed(store, query, limit)
        assert sorted(found) == list(range(1, 11))
        assert found[:2] == [10, 9]


async def test_list_of_a_flaky_check_finds_exactly_that_name(store: Store) -> None:
    """Names with signs of patterns and of JSON; a job with the name of another check is no such check."""
    names = ["ci/50%", "ci/50x", "quoted \"'\\", "Prüfung_1", "Prüfung-1", "ci/50%"]
    flaky = [(RerunCheck(name, ("ci/50%",) if index == 1 else (), 1, None, 1.0),) for index, name in enumerate(names)]
    await put(store, [replace(LANDED, id=n + 1, number=n + 1, flaky=each) for n, each in enumerate(flaky)])
    await put(store, [replace(LANDED, id=9, number=9)])
    for limit in (1, 2, 9):
        assert await listed(store, asked(30, check="ci/50%"), limit) == [6, 1]
        assert await listed(store, asked(30, job="ci/50%"), limit) == [6, 2, 1]
        for number, name in ((3, names[2]), (4, names[3]), (5, names[4])):
            assert await listed(store, asked(30, check=name), limit) == [number]
            assert await listed(store, asked(30, check=name, job="other"), limit) == []


@pytest.mark.parametrize(
    "scope",
    [
        {},
        {"outcome": EntryStatus.LANDED},
        {"outcome": EntryStatus.LANDED, "waited_for": WaitKind.CHECKS},
        {"outcome": EntryStatus.FAILED, "reason": Reason.CONFLICT, "last_only": True},
        {"check": "ci"},
        {"repository_ids": frozenset({7}), "base_branch": "main"},
        {"repository_ids": frozenset({7}), "base_branch": "main", "outcome": EntryStatus.LANDED},
    ],
)
@pytest.mark.parametrize("before", [None, 99])
async def test_no_list_sorts_the_departures_of_a_year(
    store: Store, scope: dict[str, object], before: int | None
) -> None:
    """SQLite sorts those of one day at most: a page of a hundred took a fifth of a second."""
    if store.database.dialect != "sqlite":
        return
    statement = departures._page(asked(365, **{"repository_ids": frozenset({7, 8})} | scope), before, 101)
    compiled = statement.compile(dialect=sqlite.dialect(), compile_kwargs={"literal_binds": True})
    async with store.reading() as tx:
        rows = (await tx.connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}")).mappings()
        plan = [row["detail"] for row in rows]
    assert "USE TEMP B-TREE FOR ORDER BY" not in plan
