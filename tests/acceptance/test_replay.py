"""What a queue's timeline recorded, the planner plans again: `imq replay --timeline`."""

from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from bot.cli.queue_files import timeline_lines
from bot.cli.replay.arrivals import of_timeline
from bot.cli.replay.history_files import Timeline, read_timeline
from bot.cli.replay.replays import TimelineReplay, repeat
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World


def again(file: Path, lines: Sequence[str]) -> tuple[Timeline, TimelineReplay]:
    """The timeline by way of a file, and what the planner repeats of it."""
    file.write_text("\n".join(lines))
    timeline = read_timeline(file)
    return timeline, repeat(timeline, of_timeline(timeline, ()))


async def all_left(world: World, pulls: Sequence[Any]) -> None:
    """Let time pass until the queue is empty."""
    await world.until(lambda: not any(LABEL in pull.labels for pull in pulls))
    await world.settle()


@pytest.mark.parametrize(("runs", "bad"), [(1, ""), (1, "c"), (2, "bf"), (4, "df")])
async def test_timeline_of_trains_replayed_is_what_happened(runs: int, bad: str, tmp_path: Path) -> None:
    """Same arrivals, outcomes and runs at once: the same runs of the same members, and the same order of landings."""
    async with a_train_world(tmp_path, trains=f"{{candidates: push, runs: {runs}}}") as world:
        files = [{f"{name}.txt": "9\n" if name in bad else "0\n"} for name in "abcdefgh"]
        pulls = await ready(world, *"abcdefgh", files=files)
        world.repository.push("main", {"two.txt": "2\n"}, "Two more", by="rhea")
        await world.pass_time(timedelta(minutes=8))
        before = commits_tested(world)
        queue_all(pulls[:5])
        await world.pass_time(CI_TIME / 2)
        queue_all(pulls[5:])
        await all_left(world, pulls)
        tested = commits_tested(world) - before
        lines = [line async for line in timeline_lines(world.bot.engine.store, None)]
    timeline, found = again(tmp_path / "timeline.jsonl", lines)
    assert len(timeline.landed) == 8 - len(bad)
    assert {each.number for each in timeline.entries if each.by_checks} == {
        pull.number for pull, name in zip(pulls, "abcdefgh", strict=True) if name in bad
    }
    assert timeline.slots == runs
    assert (found.same_runs, found.landed_again) == (found.runs, found.landed)
    assert found.runs >= tested


async def test_timeline_without_trains_has_the_waits_and_the_runs(world: World, tmp_path: Path) -> None:
    """One pull request after the other: the first is up to date, and the others wait for a run of their own each."""
    pulls = await ready(world, "a", "b", "c", files=[{f"{name}.txt": "0\n"} for name in "abc"])
    for pull in pulls:
        pull.label(LABEL, by="mona")
        await world.settle()
    await all_left(world, pulls)
    timeline, _ = again(
        tmp_path / "timeline.jsonl", [line async for line in timeline_lines(world.bot.engine.store, None)]
    )
    minutes = CI_TIME.total_seconds() / 60
    waits = [each.until - each.since for each in timeline.landed]
    assert waits == pytest.approx([0, minutes, 2 * minutes], abs=0.1)
    assert [(each.members, each.passed) for each in timeline.runs] == [((pull.number,), True) for pull in pulls[1:]]
    assert timeline.ci_times == pytest.approx([minutes, minutes], abs=0.1)
