"""Pull requests that are part of a stack: GitHub's synchronous merge refuses them."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

MERGE = "PUT /repos/{owner}/{repo}/pulls/{number}/merge"
UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"


def stack(world: World) -> Any:
    """Two pull requests; the bottom one, for `main`, is returned."""
    world.github.behaviour.stacks = "registered"
    bottom = world.open("bottom")
    top = world.repository.open_pull_request("Top", head="top", base="bottom", by="mona", files={"top.txt": "1\n"})
    return world.repository.stack(bottom, top)


async def dequeued(world: World, pull: Any) -> tuple[str, str]:
    """Label it: for which reason it left, and what its comment says."""
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=timedelta(minutes=30))
    await world.settle()
    assert not pull.merged
    return (await world.reasons(pull))[-1], world.comment(pull)


@pytest.mark.parametrize("graphql", [True, False])
async def test_stacked_pull_request_is_refused_when_queued_and_lands_outside_of_its_stack(
    world: World, graphql: bool
) -> None:
    """Nothing is tested in vain, whether GraphQL or REST shows the stack; the comment says what to do."""
    world.github.behaviour.graphql = graphql
    formed = stack(world)
    bottom = world.repository.pull(formed.pulls[0].number)
    reason, sentence = await dequeued(world, bottom)
    assert reason == "stacked"
    assert "Remove the pull request from the stack" in sentence
    assert world.requests(MERGE, UPDATE) == 0
    world.github.stacks.dissolve(world.repository.record, formed)
    bottom.label(LABEL, by="mona")
    await world.until(lambda: bottom.merged, within=CI_TIME * 4)


@pytest.mark.parametrize("status", [403, 405])
async def test_stack_that_is_not_shown_is_recognised_by_the_refused_merge(world: World, status: int) -> None:
    """A GraphQL schema without stacks, as of an older server: the pull request leaves at its first refusal."""
    world.github.behaviour.graphql_stacks = False
    world.github.behaviour.stacked_merge_status = status
    formed = stack(world)
    reason, sentence = await dequeued(world, world.repository.pull(formed.pulls[0].number))
    assert reason == "stacked"
    assert "Remove the pull request from the stack" in sentence
    assert world.requests(MERGE) == 1
