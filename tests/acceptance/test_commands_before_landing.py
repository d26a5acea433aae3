"""P4, P5: a landing waits for a command that may withdraw it and that GitHub's failures keep from being judged."""

from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault
from tests.acceptance.commenting import answered
from tests.acceptance.train_stage import TrainWorld, a_train_world
from tests.acceptance.world import CI_TIME, LABEL

PERMISSION = "GET /repos/{owner}/{repo}/collaborators/{username}/permission"
SECOND = timedelta(seconds=1)
WAYS: dict[str, dict[str, Any]] = {
    "one-by-one": {"trains": "off", "on": ("pull_request",)},
    "moved-base": {},
    "merge-calls": {"method": "squash"},
}
"""How pull requests land."""


async def behind(t: TrainWorld, count: int) -> list[Any]:
    """Queue pull requests that CI has to test again, since the base moved."""
    pulls = [t.open() for _ in range(count)]
    await t.world.pass_time(CI_TIME * 2)
    t.world.repository.push("main", {"moved.py": "moved\n"}, "Move", by="rhea")
    await t.world.settle()
    for pull in pulls:
        pull.label(LABEL, by="mona")
    return pulls


async def before_the_checks_end(t: TrainWorld, pull: Any) -> datetime:
    """Let time pass until seconds before the first checks of a queue end; return when they will have ended."""
    world = t.world
    await world.until_status(pull, "checking")
    ends = world.clock.now() + CI_TIME
    await world.pass_time(CI_TIME - 8 * SECOND)
    return ends


def unreadable(t: TrainWorld, status: int) -> Fault:
    """Have GitHub fail each read of a permission from now on."""
    return t.world.server.faults.add(Fault(kind="fail", route=PERMISSION, status=status, times=None))


@pytest.mark.parametrize("lag", [0, 2])
@pytest.mark.parametrize("status", [403, 503])
@pytest.mark.parametrize("way", WAYS)
async def test_withdrawn_while_github_fails_to_say_who_may_is_not_landed(
    tmp_path: Path, way: str, status: int, lag: int
) -> None:
    """The command is judged as soon as GitHub answers, and the landing waits until then, of all members of a train."""
    async with a_train_world(tmp_path, lag=lag * SECOND, **WAYS[way]) as t:
        pulls = await behind(t, 2)
        gone, kept = (
            pulls if lag or way == "one-by-one" else reversed(pulls)
        )  # Where reads lag, the first is tested alone.
        ends = await before_the_checks_end(t, pulls[0])
        failing = unreadable(t, status)
        gone.comment("/unqueue", by="hubot")
        await t.world.pass_time(ends - t.world.clock.now() + 30 * SECOND)
        assert failing.hits > 1
        assert not gone.merged
        assert not kept.merged
        failing.when = lambda _: False
        await t.world.until(lambda: bool(kept.merged))
        await t.world.settle()
        assert not gone.merged
        assert await t.world.reasons(gone) == ["unqueued"]
        assert await answered(t.world, gone) == ["left"]


@pytest.mark.parametrize("word", ["/pause", "/freeze until 2h"])
async def test_pause_that_is_not_judged_keeps_the_queue_from_landing(tmp_path: Path, word: str) -> None:
    """Maintainers pause where they see the fault: a comment's webhook names no base branch."""
    async with a_train_world(tmp_path, **WAYS["one-by-one"]) as t:
        queued, other = (await behind(t, 1))[0], t.open()
        ends = await before_the_checks_end(t, queued)
        failing = unreadable(t, 503)
        other.comment(word, by="rhea")
        await t.world.pass_time(ends - t.world.clock.now() + 30 * SECOND)
        failing.when = lambda _: False
        await t.world.pass_time(CI_TIME)
        assert not queued.merged
        assert await answered(t.world, other) == ["paused" if word == "/pause" else "frozen"]


@pytest.mark.parametrize(
    ("way", "strangers", "at_most"),
    [("one-by-one", True, 120), ("moved-base", False, 75), ("merge-calls", False, 75)],
)
async def test_landing_waits_for_a_minute_however_many_commands_cannot_be_judged(
    tmp_path: Path, way: str, strangers: bool, at_most: int
) -> None:
    """P5: a person who may withdraw it says so again and again, or ever more strangers do."""
    async with a_train_world(tmp_path, **WAYS[way]) as t:
        t.world.repository.record.private = False
        (pull,) = await behind(t, 1)
        ends = await before_the_checks_end(t, pull)
        unreadable(t, 503)
        people = ["hubot"]
        for number in range(34):
            if strangers and number % 4 == 0:
                people = [f"eve-{number}", *people] if number else ["eve-0"]
                t.world.github.create_user(people[0])
            for login in people[:4] if not pull.merged else ():
                pull.comment("/unqueue", by=login)
            await t.world.pass_time(5 * SECOND)
        assert pull.merged
        assert pull.record.merged_at - ends <= at_most * SECOND


async def test_command_without_the_right_delays_a_landing_by_seconds(tmp_path: Path) -> None:
    """Where GitHub answers, a command is judged at once."""
    async with a_train_world(tmp_path, **WAYS["one-by-one"]) as t:
        (pull,) = await behind(t, 1)
        ends = await before_the_checks_end(t, pull)
        pull.comment("/unqueue", by="tria")
        await t.world.until(lambda: bool(pull.merged))
        assert t.world.clock.now() - ends <= 10 * SECOND
