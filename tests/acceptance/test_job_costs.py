"""What jobs cost: sums agree with the emulator's own durations, and people read before they act what that costs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import Job, Trigger
from queue_engine.domain.departure import Departure
from tests.acceptance.callers import caller
from tests.acceptance.commenting import say
from tests.acceptance.page_readers import reader
from tests.acceptance.world import LABEL, LAG, World, a_world

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
PRICES = {"build": 0.006, "windows": 0.010, "bench": 0.002}
"""By job: GitHub's for two runners, and one of the repository's own."""
CANDIDATES = (Trigger("pull_request"), Trigger("push", branches=("imq/**",)))


@asynccontextmanager
async def a_billed_world(
    directory: Path,
    more: str = "",
    *,
    prices: str = "checks:\n  prices: {self-hosted: 0.002}\n",
    lag: timedelta = timedelta(0),
) -> AsyncIterator[World]:
    """A private repository with three jobs; candidates fail once with `flaky.txt`, and always with `bad.txt`."""
    failed: set[str] = set()

    def is_green(files: Mapping[str, str]) -> bool:
        if "base.txt" not in files:
            return True
        flakes = "flaky.txt" in files and "flaky" not in failed
        failed.update({"flaky"} if flakes else ())
        return not flakes and "bad.txt" not in files

    jobs = (
        Job("build", duration=130 * SECOND),
        Job("windows", duration=200 * SECOND, judge=is_green, labels=("windows-latest",)),
        Job("bench", duration=20 * SECOND, labels=("self-hosted", "linux")),
    )
    async with a_world(directory, ci=False, protect=False, lag=lag) as world:
        world.repository.add_workflow("CI", jobs=jobs, on=CANDIDATES)
        world.repository.protect("main", required_checks=[each.name for each in jobs])
        world.repository.push("main", {".github/imq.yml": f"{prices}{more}"}, "Configure IMQ", by="rhea")
        await world.pass_time(10 * MINUTE)
        yield world


def billed(world: World, since: datetime) -> tuple[int, float]:
    """The minutes and the price of the jobs that ended later, by the emulator's own record."""
    jobs = [
        each
        for each in world.repository.record.runs.values()
        if each.workflow_run is not None and each.completed_at is not None and each.completed_at > since
    ]
    minutes = {each.id: ceil((each.completed_at - each.started_at).total_seconds() / 60) for each in jobs}
    return sum(minutes.values()), sum(minutes[each.id] * PRICES[each.name] for each in jobs)


async def departures_of(world: World, *pulls: Any) -> list[Departure]:
    """All departures of these pull requests."""
    async with world.bot.engine.store.reading() as tx:
        found = [await tx.departures.of_pull_request(each.record.repository.id, each.number) for each in pulls]
    return [departure for of_one in found for departure in of_one]


TRAINS = "trains: {candidates: push}\n"
VARIANTS = pytest.mark.parametrize(
    ("more", "lag"),
    [
        ("", timedelta(0)),
        (TRAINS, timedelta(0)),
        pytest.param("", LAG, marks=pytest.mark.thorough),
        pytest.param(TRAINS, LAG, marks=pytest.mark.thorough),
    ],
    ids=["one_by_one", "trains", "one_by_one_lagging", "trains_lagging"],
)


@VARIANTS
async def test_sums_are_those_of_the_emulators_jobs(tmp_path: Path, more: str, lag: timedelta) -> None:
    """Several jobs a run, a rerun, an ejection, and trains: each whole minute counts once, with its price."""
    async with a_billed_world(tmp_path, more, lag=lag) as world:
        files = [{"a.txt": "a"}, {"flaky.txt": "x"}, {"bad.txt": "x"}, {"d.txt": "d"}]
        pulls = [world.open(f"pull-{place}", files=each) for place, each in enumerate(files)]
        await world.pass_time(10 * MINUTE)
        world.repository.push("main", {"base.txt": "1"}, "Base", by="rhea")
        await world.pass_time(10 * MINUTE)
        since = world.clock.now()
        for pull in pulls:
            pull.label(LABEL, by="mona")
            await world.pass_time(SECOND)
        await world.until(lambda: all(pulls[each].merged for each in (0, 1, 3)))
        await world.pass_time(10 * MINUTE)
        found = await departures_of(world, *pulls)
        minutes, cost = billed(world, since)
        assert len(found) == len(pulls)
        assert sum(each.ci_minutes for each in found) == pytest.approx(minutes)
        assert sum(each.ci_cost for each in found) == pytest.approx(cost)
        # Of a train, runs of their own find the member that flaked: nothing is rerun.
        flakes = [] if more else [("windows", 4.0, 4 * PRICES["windows"])]
        assert [(each.name, each.ci_minutes, each.ci_cost) for one in found for each in one.flaky] == flakes


@VARIANTS
async def test_people_read_before_they_act_what_it_costs_and_it_costs_that(
    tmp_path: Path, more: str, lag: timedelta
) -> None:
    """API, pages and the reply to a command name the same runs, minutes and delays; the departure has the minutes."""
    async with a_billed_world(tmp_path, more, lag=lag) as world, aiohttp.ClientSession() as session:
        pulls = [world.open(f"pull-{place}", files={f"{place}.txt": "x"}) for place in range(3)]
        # What jobs there are is known from a landing before: IMQ reads no check while all of them run.
        before = await world.behind("before")
        before.label(LABEL, by="mona")
        await world.until(lambda: before.merged)
        await world.pass_time(10 * MINUTE)
        world.repository.push("main", {"base.txt": "1"}, "Base", by="rhea")
        await world.pass_time(10 * MINUTE)
        for pull in pulls:
            pull.label(LABEL, by="mona")
            await world.pass_time(SECOND)
        await world.pass_time(100 * SECOND)
        mona = await caller(world, session)
        branch, first = "/api/v1/repositories/acme/widgets/branches/main", pulls[0]
        pause = (await mona.ask("GET", f"{branch}/effect?do=pause")).body
        assert (pause["runs"], pause["holds"], pause["delayed"]) == (1, True, [pull.number for pull in pulls])
        path = f"/api/v1/repositories/acme/widgets/pulls/{first.number}/effect"
        left = (await mona.ask("GET", f"{path}?do=dequeue")).body
        # Two jobs run for 100 s, and one has ended after 20 s.
        assert (left["runs"], left["holds"], left["minutes"]) == (1, False, 5.0)
        assert left["cost"] == pytest.approx(2 * PRICES["build"] + 2 * PRICES["windows"] + PRICES["bench"])
        assert left["sentence"].startswith("It stops 1 run, 5 minutes of CI ($0.03), and delays ")
        assert (await mona.ask("GET", f"{path}?do=priority&priority=x")).status == 400
        async with reader(world, "rhea") as rhea:
            page = (await rhea.get(f"/repositories/acme/widgets/pulls/{first.number}/confirm?do=dequeue")).text
            assert f"In short {left['sentence']}" in page
            assert pause["sentence"] in (await rhea.get("/repositories/acme/widgets/branches/main")).text
        assert len(await world.entries()) == len(pulls), "nothing is done by looking"
        await say(world, first, "/unqueue", by="mona")
        await world.pass_time(SECOND + 4 * lag)
        assert left["sentence"].removesuffix(".") in world.comment(first)
        [departure] = await departures_of(world, first)
        assert departure.ci_minutes == 5
        answer = (await mona.ask("GET", f"{branch}/statistics?days=7")).body["jobs"]
        assert answer["departures"]["minutes"] == 5
        assert answer["total"]["minutes"] == 8 + 5
        reasons = {each["reason"]: each["jobs"]["minutes"] for each in answer["reasons"]}
        assert reasons == {None: 8, "unqueued": 5}
        await say(world, pulls[1], "/pause deploy", by="rhea")
        await world.pass_time(SECOND + 4 * lag)
        assert "It stops no run, and delays 2 pull requests." in world.comment(pulls[1])


@VARIANTS
async def test_hotfix_ends_the_run_that_its_preview_names(tmp_path: Path, more: str, lag: timedelta) -> None:
    """What a hotfix would stop is what it stops, and the one whose run ended lands with that as a reset."""
    urgent = "priority: {labels: {urgent: {hotfix: true, preempts: true}}}\n"
    async with a_billed_world(tmp_path, more + urgent, lag=lag) as world, aiohttp.ClientSession() as session:
        pulls = [world.open(name, files={f"{name}.txt": "x"}) for name in ("plain", "fix")]
        before = await world.behind("before")
        before.label(LABEL, by="mona")
        await world.until(lambda: before.merged)
        await world.pass_time(10 * MINUTE)
        pulls[0].label(LABEL, by="mona")
        await world.pass_time(130 * SECOND)
        mona = await caller(world, session)
        path = "/api/v1/repositories/acme/widgets/branches/main/effect?do=hotfix"
        hotfix = (await mona.ask("GET", path)).body
        assert (hotfix["runs"], hotfix["delayed"]) == (1, [pulls[0].number])
        pulls[1].label("urgent", by="rhea")
        pulls[1].label(LABEL, by="mona")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        [plain], [fix] = [await departures_of(world, pull) for pull in pulls]
        assert fix.left_at < plain.left_at
        assert (plain.reset_minutes, fix.reset_minutes) == (hotfix["minutes"], 0)
        assert plain.ci_minutes == hotfix["minutes"] + fix.ci_minutes


async def test_repository_without_prices_has_minutes_and_pays_no_request(tmp_path: Path) -> None:
    """The minutes come from what IMQ reads anyway; what a run costs is asked for only where prices are configured."""
    async with a_billed_world(tmp_path, prices="") as world:
        pull = world.open("add", files={"a.txt": "a"})
        await world.pass_time(10 * MINUTE)
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged)
        [departure] = await departures_of(world, pull)
        assert (departure.ci_minutes, departure.priced) == (0.0, 0.0), "its jobs had ended before it was queued"
        assert not [each for each in world.server.requests if "/actions/jobs" in each.template]


@pytest.mark.lagging
async def test_statistics_say_what_trains_and_refs_of_tested_trees_save(tmp_path: Path, lag: timedelta) -> None:
    """Three members land by one run, which saves two; the named job need not run again on the base."""
    more = f"{TRAINS}merge: {{tested_refs: build}}\n"
    async with a_billed_world(tmp_path, more, lag=lag) as world, aiohttp.ClientSession() as session:
        pulls = [world.open(f"pull-{place}", files={f"{place}.txt": "x"}) for place in range(3)]
        await world.pass_time(10 * MINUTE)
        mona, branch = await caller(world, session), "/api/v1/repositories/acme/widgets/branches/main"
        await say(world, pulls[0], "/pause", by="rhea")
        await world.settle()
        for pull in pulls:
            pull.label(LABEL, by="mona")
        await world.settle()
        await say(world, pulls[0], "/resume", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        jobs = (await mona.ask("GET", f"{branch}/statistics?days=7")).body["jobs"]
        assert jobs["total"]["minutes"] == pytest.approx(8)
        assert jobs["saved_by_trains"]["minutes"] == pytest.approx(2 * 8)
        assert jobs["saved_by_refs"] == {"minutes": pytest.approx(3), "cost": pytest.approx(3 * PRICES["build"])}
