"""Progress: how far the checks of a pull request are, shown as they report and without a request too many (P6, P7)."""

from datetime import timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from github_emulator import CISettings
from queue_engine.core.observability.progress import ProgressEvent
from tests.acceptance.callers import caller
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import LABEL, World, a_world

MINUTE = timedelta(minutes=1)
QUEUE = "/api/v1/repositories/acme/widgets/branches/main/queue"
RUN = "PATCH /repos/{owner}/{repo}/check-runs/{check_run_id}"


async def behind_with(world: World, *minutes: float) -> Any:
    """A labelled pull request behind its base, whose required checks take this long each."""
    required = []
    for number, length in enumerate(minutes):
        name = f"ci/{number}"
        ci = world.repository.add_ci(name, settings=CISettings(duration=MINUTE * length, judge=total_at_most_ten))
        required.append((name, ci.app.id))
    world.repository.protect("main", required_checks=required)
    pull = world.open("add")
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")
    await world.settle()
    pull.label(LABEL, by="mona")
    return pull


def published(world: World) -> list[Any]:
    """All progress that the bus carries from now on."""
    events: list[Any] = []
    world.bot.bus.subscribe(lambda e: events.append(e) if isinstance(e, ProgressEvent) else None)
    return events


def edits(world: World) -> list[str]:
    """The titles that IMQ gave its check run in edits, oldest first."""
    return [r.body["output"]["title"] for r in world.server.requests if r.template == RUN]


@pytest.mark.thorough
async def test_progress_of_three_required_checks_is_published_in_order(tmp_path: Path) -> None:
    """From none to all, each once, under the id of the entry."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        events = published(world)
        pull = await behind_with(world, 2, 5, 8)
        await world.until_status(pull, "checking")
        entry = await world.entry(pull)
        assert entry is not None
        await world.until(lambda: pull.merged)
        assert [(event.done, event.total) for event in events] == [(0, 3), (1, 3), (2, 3), (3, 3)]
        assert {event.correlation_id for event in events} == {entry.id}
        assert events[2].message == "2 of 3 checks have reported"


@pytest.mark.thorough
async def test_progress_that_only_polls_find_is_published_too(tmp_path: Path) -> None:
    """Webhooks are hints: those of checks never come."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        events = published(world)
        pull = await behind_with(world, 5, 20, 50)
        await world.until_status(pull, "checking")
        world.app.events = frozenset(world.app.events) - {"check_run", "check_suite", "status"}
        await world.until(lambda: pull.merged)
        assert [(event.done, event.total) for event in events] == [(0, 3), (1, 3), (2, 3), (3, 3)]


async def test_progress_of_checks_that_end_within_fifteen_minutes_costs_no_edit(tmp_path: Path) -> None:
    """Its check run is edited once, by the end; neither does its comment say more than before."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        pull = await behind_with(world, 2, 10, 15)
        await world.until(lambda: pull.merged)
        await world.settle()
        assert len(edits(world)) == 1


@pytest.mark.thorough
async def test_progress_of_two_hours_of_checks_costs_two_edits_at_most(tmp_path: Path) -> None:
    """However many report in that time."""
    async with a_world(tmp_path, ci=False, protect=False, settings={"IMQ_CHECK_TIMEOUT_SECONDS": "14400"}) as world:
        pull = await behind_with(world, 2, 11, 19, 25, 38, 44, 59, 77, 90, 120)
        await world.until(lambda: pull.merged)
        await world.settle()
        *progress, end = edits(world)
        assert progress == ["Waiting for checks, 3 of 10 have reported", "Waiting for checks, 7 of 10 have reported"]
        assert "anded" in end


async def test_progress_survives_a_restart_and_outlives_no_entry(tmp_path: Path) -> None:
    """The pending edit is in the database; if the entry leaves before it is due, only the outcome is shown."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        pull = await behind_with(world, 2, 45, 100)
        await world.until_status(pull, "checking")
        await world.pass_time(MINUTE * 5)
        await world.kill()
        await world.restart()
        await world.pass_time(MINUTE * 20)
        assert edits(world) == ["Waiting for checks, 1 of 3 have reported"]
        await world.pass_time(MINUTE * 22)
        pull.unlabel(LABEL, by="mona")
        await world.pass_time(MINUTE * 60)
        assert len(edits(world)) == 2


async def test_run_of_a_train_reports_each_poll_under_its_candidate(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """How many of the candidate's checks have reported, as they report and as polls find them, until it passed (P6).

    The API shows the same of the run, whose candidate is its batch job.
    """
    async with a_train_world(tmp_path) as world:
        required: list[Any] = ["ci/test"]
        for number, length in enumerate((1, 2, 20)):
            ci = world.repository.add_ci(f"ci/{number}", settings=CISettings(duration=MINUTE * length))
            required.append((f"ci/{number}", ci.app.id))
        world.repository.protect("main", required_checks=required)
        pulls = await ready(world, "a", "b")
        await world.pass_time(MINUTE * 20)
        events = published(world)
        queue_all(pulls)
        await world.until(lambda: any(each.done == 2 for each in events))
        shown = (await (await caller(world, session)).ask("GET", QUEUE)).body
        await world.until(lambda: all(pull.merged for pull in pulls))
        [run] = [each for each in shown["runs"] if each["batch_job_id"] is not None]
        assert (run["members"], run["done"], run["total"]) == ([pull.number for pull in pulls], 2, 4)
        assert run["process_id"] == run["batch_job_id"] == events[-1].correlation_id
        candidates = [each for each in events if len(each.correlation_id) == 40]
        assert len({each.correlation_id for each in candidates}) == 1
        assert sorted({each.done for each in candidates}) == [1, 2, 3, 4]
        assert {each.total for each in candidates} == {4}
        assert candidates[-1].status == "completed"
        assert "2 of 4 checks have reported" in [each.message for each in candidates]
        assert all(each.done <= later.done for each, later in pairwise(candidates))
