"""P5, P6: GitHub fails while a train lands; how long it failed counts, and no hold of the queue does."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Fault, RecordedCall
from tests.acceptance.test_train_refusals import events
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import World

HOUR = timedelta(hours=1)


def moves_base(recorded: RecordedCall) -> bool:
    """Whether this request moves the base."""
    return "mutation UpdateRefs" in str(recorded.body) and "refs/heads/main" in str(recorded.body)


def reads_tip(recorded: RecordedCall) -> bool:
    """Whether this request reads the base's tip alone."""
    return recorded.method == "GET" and recorded.path.endswith(("/branches/main", "heads/main"))


def fail_once(world: World, **how: Any) -> Fault:
    """Let the next move of the base fail."""
    return world.server.faults.add(Fault(times=1, when=moves_base, **how))


async def test_move_that_failed_before_and_after_a_hold_switches_no_trains_off(tmp_path: Path) -> None:
    """P5: two answers of half a second each, with a pause of three hours between them, are no outage of three hours."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        first = fail_once(world, kind="fail", status=503)
        queue_all(pulls)
        await world.until(lambda: first.hits == 1)
        pulls[0].comment("/pause", by="rhea")
        await world.pass_time(3 * HOUR)
        second = fail_once(world, kind="fail", status=503)
        assert not any(pull.merged for pull in pulls)
        pulls[0].comment("/resume", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert second.hits == 1
        assert "trains_off" not in [each[0] for each in await events(world)]


@pytest.mark.thorough
async def test_move_whose_answer_was_lost_is_imqs_own_after_two_hours_without_a_read_of_the_base(
    tmp_path: Path,
) -> None:
    """P2, P6: only GitHub knows the outcome, so that IMQ asks for as long as after any other lost answer."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        lost = fail_once(world, kind="apply_then_reset")
        outage = Fault("fail", status=503, times=None, when=lambda each: lost.hits > 0 and reads_tip(each))
        world.server.faults.add(outage)
        queue_all(pulls)
        await world.until(lambda: lost.hits == 1)
        await world.pass_time(2 * HOUR)
        world.server.faults.clear()
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(HOUR)
        assert await world.entries() == ()
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
        assert "trains_off" not in [each[0] for each in await events(world)]


async def test_base_that_github_never_moves_ends_trains_after_an_hour(tmp_path: Path) -> None:
    """P5: reads show that nothing landed, so that no answer is in doubt; the pull requests land one by one."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        world.server.faults.add(Fault("fail", status=503, times=None, when=moves_base))
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(hours=2))
        [(_, reason, detail)] = [each for each in await events(world) if each[0] == "trains_off"]
        assert (reason, detail) == ("candidate_landing_refused", "GitHub failed each time")
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
