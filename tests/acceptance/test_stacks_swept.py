"""Sweeps leave a pull request of a stack alone that waits for the one below, and find what webhooks did not report."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.test_shared_heads import shared
from tests.acceptance.test_stacked import green
from tests.acceptance.world import CI_TIME, LABEL, World

READS = ("GET /repos/{owner}/{repo}/pulls/{number}", "POST /graphql", "GET /repos/{owner}/{repo}/pulls")
SWEPT = timedelta(minutes=21)
"""After a read that IMQ's own comment caused, the second sweep finds what was not reported."""


async def waiting(world: World, *, registered: bool) -> tuple[Any, Any]:
    """A stack whose upper pull request has the label."""
    bottom, top, formed = await green(world)
    if not registered:
        world.github.stacks.dissolve(world.repository.record, formed)
    top.label(LABEL, by="mona")
    await world.pass_time(SWEPT)
    assert f"#{bottom.number}" in world.comment(top)
    return bottom, top


def reads(world: World) -> int:
    """How many single pull requests IMQ has read: each sweep lists them in any case."""
    return world.requests(*READS[:2])


@pytest.mark.thorough
@pytest.mark.parametrize("registered", [True, False])
async def test_wait_for_a_stack_costs_no_request_while_nothing_happens(world: World, registered: bool) -> None:
    """P7: whether GitHub knows the stack, or only the base branch shows it."""
    await waiting(world, registered=registered)
    asked = reads(world)
    await world.pass_time(timedelta(hours=2))
    assert reads(world) == asked


@pytest.mark.lagging
@pytest.mark.parametrize("act", ["close", "retarget", "land"])
async def test_sweep_finds_what_no_webhook_reported_of_a_stack(world: World, act: str) -> None:
    """P2: the lower one is closed, or lands and keeps its branch, or GitHub changes the base of the upper one."""
    bottom, top = await waiting(world, registered=False)
    world.github.webhooks.faults.drop(None, event="pull_request")
    match act:
        case "close":
            bottom.close(by="mona")
        case "retarget":
            world.repository.record.delete_branch_on_merge = True
            bottom.merge(by="rhea")
        case _:
            bottom.merge(by="rhea")
    await world.pass_time(SWEPT)
    if act == "close":
        assert (await world.reasons(top))[-1] == "stack_ended"
    elif act == "retarget":
        await world.until(lambda: top.merged, within=CI_TIME * 6)
    else:
        assert "has not changed the base branch" in world.comment(top)
        asked = reads(world)
        await world.pass_time(timedelta(hours=2))
        assert reads(world) <= asked + 1


async def test_sweep_finds_that_the_other_pull_request_of_a_branch_was_closed(world: World) -> None:
    """P2: the wait for another one of the same branch ends, although no webhook says that it was closed."""
    into_main, into_develop = await shared(world, contains=False)
    into_main.comment("/pause", by="rhea")
    for pull in (into_main, into_develop):
        pull.label(LABEL, by="mona")
        await world.settle()
    assert f"#{into_main.number}, queued for main" in world.comment(into_develop)
    into_main.close(by="mona", webhook=False)
    await world.until(lambda: into_develop.merged, within=2 * SWEPT)
