"""When each check ran, and where its page is: known from webhooks and from the reads that IMQ makes anyway."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.world import LABEL, World, a_world

MINUTE = timedelta(minutes=1)


async def data_of(world: World, pull: Any, word: str) -> dict[str, Any]:
    """The data of this one event in a pull request's timeline."""
    async with world.bot.engine.store.reading() as tx:
        recorded = await tx.timeline.of_pull_request(pull.record.repository.id, pull.number)
    (data,) = [dict(event.data) for event in recorded if event.event == word]
    return data


def with_checks(world: World) -> None:
    """A check run of two minutes and a commit status of five, both required."""
    required: list[tuple[str, int] | str] = []
    for name, minutes, status in (("unit", 2, False), ("legacy", 5, True)):
        settings = CISettings(duration=minutes * MINUTE, judge=total_at_most_ten, status=status)
        ci = world.repository.add_ci(name, settings=settings)
        required.append(name if status else (name, ci.app.id))
    world.repository.protect("main", required_checks=required)


async def test_failure_has_the_seconds_of_the_checks_that_still_ran(tmp_path: Path) -> None:
    """The read that judges the failure shows them."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        with_checks(world)
        pull = await world.behind("six", files={"six.txt": "6\n"})
        world.repository.push("main", {"five.txt": "5\n"}, "Five", by="rhea")
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        await world.until_status(pull, None)
        left = await data_of(world, pull, "failed")
        assert {name: round(seconds / 60) for name, seconds in left["check_seconds"].items()} == {
            "unit": 2,
            "legacy": 2,
        }


@pytest.mark.thorough
async def test_events_that_end_a_test_have_the_seconds_of_each_check(tmp_path: Path) -> None:
    """While checks run, after they passed, and when the pull request is dequeued in the middle of them."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        with_checks(world)
        pull, other = await world.behind("add"), await world.behind("other")
        pull.label(LABEL, by="mona")
        await world.until_status(pull, "checking")
        candidate = pull.head_sha
        await world.pass_time(3 * MINUTE)
        entry = await world.entry(pull)
        assert entry is not None
        unit = next(timing for timing in entry.run.timings if timing.name == "unit")
        assert (unit.passed, unit.started is not None, unit.ended is not None) == (True, True, True)
        assert (unit.url or "").startswith("http")
        other.label(LABEL, by="mona")
        await world.until_status(other, "checking")
        data = await data_of(world, pull, "ready")
        assert data["tested"] == candidate
        assert {name: round(seconds / 60) for name, seconds in data["check_seconds"].items()} == {
            "unit": 2,
            "legacy": 5,
        }
        await world.pass_time(3 * MINUTE)
        other.unlabel(LABEL, by="mona")
        await world.settle()
        left = await data_of(world, other, "cancelled")
        assert left["tested"] == other.head_sha
        assert {name: round(seconds / 60) for name, seconds in left["check_seconds"].items()} == {"unit": 2}
        # No read has shown that the status is pending: IMQ asks GitHub for nothing that it does not need.
