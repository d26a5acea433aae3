"""Pull requests from forks: updated where their owner lets maintainers edit, explained where not."""

from datetime import timedelta
from typing import Any

import pytest

from github_emulator import PullRequestOptions
from tests.acceptance.world import CI_TIME, LABEL, World


async def from_fork(world: World, *, edits: bool) -> Any:
    """A green pull request from a stranger's fork."""
    pull = world.open("idea", by=None, fork_of="fan", options=PullRequestOptions(maintainer_can_modify=edits))
    await world.pass_time(CI_TIME * 2)
    return pull


def move_base(world: World) -> None:
    world.repository.push("main", {"other.py": "other\n"}, "Other", by="rhea")


@pytest.mark.thorough
async def test_fork_that_allows_edits_is_updated_and_lands(world: World) -> None:
    """P1: the update goes to the fork's branch, its checks run on it, and that very tree lands."""
    pull = await from_fork(world, edits=True)
    queued = pull.head_sha
    move_base(world)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert pull.head_sha != queued
    assert world.repository.tree("main") == world.repository.tree(pull.head_sha)
    assert "anded" in world.comment(pull)


@pytest.mark.thorough
async def test_fork_without_edits_that_is_behind_leaves_with_its_next_step(world: World) -> None:
    """P5: IMQ may not update it, so the comment asks its author to, or to allow it; the one behind it lands."""
    pull, following = await from_fork(world, edits=False), world.open("own")
    move_base(world)
    for one in (pull, following):
        one.label(LABEL, by="mona")
        await world.settle()
    await world.until(lambda: following.merged, within=CI_TIME * 2)
    await world.settle()
    assert await world.reasons(pull) == ["fork_not_editable"]
    assert LABEL not in pull.labels
    text = world.comment(pull)
    assert "@fan" in text
    assert "Allow edits by maintainers" in text


@pytest.mark.thorough
async def test_fork_without_edits_that_is_up_to_date_lands(world: World) -> None:
    """Nothing has to be written to the fork: it merges at once."""
    pull = await from_fork(world, edits=False)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=timedelta(seconds=5))


@pytest.mark.thorough
async def test_fork_deleted_while_queued_leaves_and_delays_no_other(world: World) -> None:
    """P5: GitHub says nothing when a fork is deleted; it is found before the merge, and the next one lands."""
    pull, following = await from_fork(world, edits=True), world.open("own")
    move_base(world)
    for one in (pull, following):
        one.label(LABEL, by="mona")
        await world.settle()
    await world.until_status(pull, "checking")
    pull.delete_fork()
    await world.until(lambda: following.merged, within=CI_TIME * 3)
    await world.settle()
    assert await world.reasons(pull) == ["fork_deleted"]
    assert not pull.merged
    assert "no longer exists" in world.comment(pull)


async def test_label_on_a_pull_request_whose_fork_is_gone_is_refused(world: World) -> None:
    """`head.repo` is null then; the refusal says so."""
    pull = await from_fork(world, edits=True)
    pull.delete_fork()
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(seconds=5))
    await world.settle()
    assert await world.reasons(pull) == ["fork_deleted"]
