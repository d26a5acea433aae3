"""A branch on which pull requests land, and which is the head of a release, is no layer of a stack."""

from datetime import timedelta
from typing import Any

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

NAMED = {".github/imq.yml": "branches: [{match: develop}]\n"}


async def gitflow(world: World, *, way: str) -> Any:
    """A green pull request into `develop`, without rules, while a release of `develop` into `main` is open."""
    world.repository.create_branch("develop", "main")
    if way == "landed":
        first = await green_fix(world, "first")
        first.label(LABEL, by="mona")
        await world.until(lambda: first.merged, within=CI_TIME * 4)
    files = NAMED if way == "named" else {"new.py": "new\n"}
    world.repository.push("develop", files, "Develop", by="rhea")
    world.repository.open_pull_request("Release", head="develop", base="main", by="rhea")
    return await green_fix(world, "fix")


async def green_fix(world: World, name: str) -> Any:
    pull = world.open(name, base="develop")
    await world.pass_time(CI_TIME * 2)
    return pull


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("way", ["named", "landed"])
async def test_gitflow_lands_on_develop_while_a_release_is_open(world: World, way: str) -> None:
    """The configuration names `develop`, or IMQ has landed a pull request on it."""
    pull = await gitflow(world, way=way)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)
    assert "stacked_above" not in await world.reasons(pull)


async def test_gitflow_lands_on_develop_whose_queue_was_in_use_before_the_release_was_opened(world: World) -> None:
    """A pull request in its queue shows that pull requests land on it."""
    world.repository.create_branch("develop", "main")
    world.repository.push("develop", {"new.py": "new\n"}, "Develop", by="rhea")
    first, second = [world.open(name, base="develop") for name in ("first", "second")]
    first.label(LABEL, by="mona")
    await world.settle()
    world.repository.open_pull_request("Release", head="develop", base="main", by="rhea")
    await world.pass_time(timedelta(seconds=30))
    second.label(LABEL, by="mona")
    await world.pass_time(timedelta(seconds=30))
    assert [entry.number for entry in await world.entries()] == [first.number, second.number]


async def test_gitflow_without_configuration_is_explained_and_joins_once_develop_is_named(world: World) -> None:
    """The comment says how to name the branch; the label counts on, since nothing about the pull request changed."""
    pull = await gitflow(world, way="unknown")
    pull.label(LABEL, by="mona")
    await world.pass_time(timedelta(minutes=2))
    assert "a maintainer names it under `branches`" in world.comment(pull)
    assert "of the branch develop" in world.comment(pull)
    world.repository.push("develop", NAMED, "Name develop", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)
    assert await world.reasons(pull) == ["stacked_above"]


@pytest.mark.thorough
async def test_rule_for_all_branches_queues_nothing_for_the_branch_of_another_pull_request(world: World) -> None:
    """No surprise: `**` names no branch."""
    world.repository.push("main", {".github/imq.yml": "branches: [{match: '**'}]\n"}, "Configure", by="rhea")
    bottom = world.open("bottom")
    top = world.repository.open_pull_request("Top", head="top", base="bottom", by="mona", files={"top.txt": "1\n"})
    await world.pass_time(CI_TIME * 2)
    top.label(LABEL, by="mona")
    await world.pass_time(CI_TIME)
    assert (await world.reasons(top), bottom.head_sha) == (["stacked_above"], world.repository.sha("bottom"))
