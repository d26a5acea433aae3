"""What jobs cost: sums agree with the emulator's own durations, and people read before they act what that costs."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from math import ceil
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Job, Trigger
from queue_engine.domain.departure import Departure
from tests.acceptance.world import LABEL, LAG, World, a_world

MINUTE, SECOND = timedelta(minutes=1), timedelta(seconds=1)
PRICES = {"build": 0.006, "windows": 0.010, "bench": 0.002}
"""By job: GitHub's for two runners, and one of the repository's own."""
CANDIDATES = (Trigger("pull_request"), Trigger("push", branches=("imq/**",)))


@asynccontextmanager
async def a_billed_world(directory: Path, more: str = "", *, lag: timedelta = timedelta(0)) -> AsyncIterator[World]:
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
        text = f"checks:\n  prices: {{self-hosted: 0.002}}\n{more}"
        world.repository.push("main", {".github/imq.yml": text}, "Configure IMQ", by="rhea")
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


@pytest.mark.parametrize("lag", [timedelta(0), LAG], ids=["at_once", "lagging"])
@pytest.mark.parametrize("more", ["", TRAINS], ids=["one_by_one", "trains"])
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
