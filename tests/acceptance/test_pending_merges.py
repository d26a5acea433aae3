"""Merges in the background that GitHub finishes after IMQ has stopped waiting for them."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.test_queue_files import move
from tests.acceptance.test_stacked import green
from tests.acceptance.world import CI_TIME, LABEL, World
from tests.support.databases import MakeUrl

READ = "GET /repos/{owner}/{repo}/pulls/{number}"
LATE = timedelta(minutes=100)
"""How long GitHub takes for the merge: IMQ waits for one hour."""


async def departed(world: World) -> Any:
    """The lowest pull request of a stack, which left its queue while GitHub had not merged it."""
    world.github.timings.merge_async = LATE
    bottom, _, _ = await green(world)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in bottom.labels, within=timedelta(hours=2))
    await world.settle()
    assert await world.reasons(bottom) == ["github_trouble"]
    assert "GitHub has not finished its merge in the background, and may still do so" in world.comment(bottom)
    assert await world.entries() == ()
    return bottom


@pytest.mark.lagging
@pytest.mark.thorough("False", "unnamed")
@pytest.mark.parametrize("named", [True, False], ids=["named", "unnamed"])
@pytest.mark.parametrize("reported", [True, False])
async def test_merge_that_outlives_its_entry_is_compared_and_announced(
    world: World, reported: bool, named: bool
) -> None:
    """P1: the base still is the tested one, so the trees agree; a sweep finds the landing if no webhook reports it.

    Where GitHub does not say who merged it, the result of the request does.
    """
    world.github.behaviour.async_mergers_named = named
    bottom = await departed(world)
    if not reported:
        # P2: what was tested outlives the process, too.
        await world.kill()
        await world.restart()
        world.github.webhooks.faults.drop(None, event="pull_request", action="closed")
    await world.until(lambda: bottom.merged, within=LATE)
    await world.pass_time(timedelta(minutes=1 if reported else 11))
    assert "Landed on `main`" in world.comment(bottom)
    assert await world.paused() is None
    async with world.bot.engine.store.reading() as tx:
        events = await tx.timeline.of_pull_request(bottom.record.repository.id, bottom.number)
        assert await tx.pending_merges.numbers(bottom.record.repository.id) == ()
    assert [event.event for event in events][-2:] == ["failed", "landed"]
    assert events[-1].data["tree"] == events[-1].data["tested_tree"]


async def test_merge_that_outlives_its_entry_is_compared_by_the_database_that_imports_it(
    world: World, make_sqlite_url: MakeUrl
) -> None:
    """P1: the file has what was tested."""
    bottom = await departed(world)
    await move(world, make_sqlite_url())
    await world.until(lambda: bottom.merged, within=LATE)
    await world.pass_time(timedelta(minutes=1))
    assert "Landed on `main`" in world.comment(bottom)
    assert await world.paused() is None


@pytest.mark.lagging
@pytest.mark.thorough("True")
@pytest.mark.parametrize("reported", [True, False])
async def test_merge_that_outlives_its_entry_onto_a_moved_base_pauses_the_queue(world: World, reported: bool) -> None:
    """P1: another pull request landed meanwhile, so the tree that GitHub made of both is untested."""
    bottom = await departed(world)
    other = world.open("other")
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged, within=CI_TIME * 6)
    if not reported:
        world.github.webhooks.faults.drop(None, event="pull_request", action="closed")
    world.github.timings.job_start = timedelta(hours=1)
    await world.until(lambda: bottom.merged, within=LATE)
    await world.pass_time(timedelta(minutes=1 if reported else 11))
    assert await world.paused() == "tree_mismatch"
    assert "is not the one that CI tested, so IMQ paused the queue" in world.comment(bottom)
    assert world.spoken(bottom) == 1


async def test_merge_by_a_person_after_the_entry_left_is_no_landing_of_imq(world: World) -> None:
    """A person who merges a pull request that left its queue answers for it, as for any other."""
    bottom = await departed(world)
    other = world.open("other")
    other.label(LABEL, by="mona")
    await world.until(lambda: other.merged, within=CI_TIME * 6)
    world.github.behaviour.stacks = "none"
    bottom.merge(by="rhea")
    await world.pass_time(timedelta(minutes=1))
    assert bottom.merged
    assert await world.paused() is None
    assert "GitHub failed for longer" in world.comment(bottom)


@pytest.mark.thorough
async def test_merge_that_outlives_its_entry_costs_no_request_while_it_is_open(world: World) -> None:
    """P7: the sweeps list the open pull requests in any case, and read none of them for this."""
    await departed(world)
    before = world.requests(READ)
    await world.pass_time(timedelta(minutes=30))
    assert world.requests(READ) == before
