"""P1: no read that shows the base as it was before lands a change untested, whichever decision rests on it.

Strict protection is off, so that GitHub itself refuses nothing. Each tree passes alone, and fails together with what
came to the base a moment ago. GraphQL shows pull request and base in one answer: there the base alone is old.
"""

from datetime import timedelta

import pytest

from github_emulator import Fault
from tests.acceptance.world import CI_TIME, LABEL, World

SECOND = timedelta(seconds=1)
ON_BASE, CHANGE = {"limits.txt": "6\n"}, {"others.txt": "6\n"}
MERGE = "/repos/{owner}/{repo}/pulls/{number}/merge"


def show_old_bases(world: World, lag: timedelta) -> None:
    """Have comparisons show the base as it was, and all else as it is."""
    world.server.lag.set(lag, "compare", "graphql_branches")


def push_to_base(world: World) -> None:
    """Somebody pushes to the base by hand, which a webhook reports."""
    world.repository.push("main", ON_BASE, "By hand", by="rhea")


@pytest.mark.thorough
async def test_base_from_before_a_landing_queues_nothing_as_up_to_date(world: World) -> None:
    """No webhook reports the landing: IMQ knows it by GitHub's answer to the merge."""
    first, second = world.open("first", files=ON_BASE), world.open("second", files=CHANGE)
    await world.pass_time(CI_TIME * 2)
    world.github.webhooks.faults.drop(None, event="push")
    show_old_bases(world, 5 * SECOND)
    first.label(LABEL, by="mona")
    await world.until(lambda: first.merged)
    await world.pass_time(SECOND)
    second.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 3)
    assert await world.reasons(second) == ["checks_failed"]


@pytest.mark.thorough
async def test_base_from_before_a_push_queues_nothing_as_up_to_date(world: World) -> None:
    """The label is set in the instant of the push, and 0.4 s are enough."""
    pull = world.open("change", files=CHANGE)
    await world.pass_time(CI_TIME * 2)
    show_old_bases(world, 0.4 * SECOND)
    push_to_base(world)
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 3)
    assert await world.reasons(pull) == ["checks_failed"]


@pytest.mark.thorough
async def test_base_from_before_a_push_ends_no_checks(world: World) -> None:
    """The base moves in the last second of the checks."""
    pull = world.open("change", files=CHANGE)
    await world.pass_time(CI_TIME - SECOND)
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    show_old_bases(world, 5 * SECOND)
    push_to_base(world)
    await world.pass_time(CI_TIME * 3)
    assert await world.reasons(pull) == ["checks_failed"]


async def test_base_from_before_a_push_is_not_merged_into(world: World) -> None:
    """The base moves while the answer to a merge is lost, and the next look is right before the next merge."""
    pull = world.open("change", files=CHANGE)
    await world.pass_time(CI_TIME * 2)
    show_old_bases(world, 5 * SECOND)
    world.server.faults.add(Fault(kind="fail", method="PUT", route=MERGE, status=502))
    world.meanwhile(f"PUT {MERGE}", lambda: push_to_base(world))
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 3)
    assert await world.reasons(pull) == ["checks_failed"]
