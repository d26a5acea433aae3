"""Repositories as they come: their merge methods, their branches' names, and names that change."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import CISettings
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

ONLY_SQUASH = {"allow_merge_commit": False, "allow_rebase_merge": False}
ONLY_REBASE = {"allow_merge_commit": False, "allow_squash_merge": False}


async def lands_one_fresh_and_one_behind(world: World) -> None:
    """Both trees are those that were tested, and history stays one line."""
    fresh = world.open("fresh")
    await world.pass_time(CI_TIME * 2)
    fresh.label(LABEL, by="mona")
    await world.until(lambda: fresh.merged, within=timedelta(seconds=30))
    assert world.repository.tree("main") == world.repository.tree(fresh.head_sha)
    late = await world.behind("late")
    late.label(LABEL, by="mona")
    await world.until(lambda: late.merged)
    await world.settle()
    assert world.repository.tree("main") == world.repository.tree(late.head_sha)
    assert await world.paused() is None
    assert all(len(commit.parents) <= 1 for commit in world.repository.log("main"))
    assert "anded" in world.comment(late)


@pytest.mark.thorough
@pytest.mark.parametrize(("allowed", "method"), [(ONLY_SQUASH, "squash"), (ONLY_REBASE, "rebase")])
async def test_repository_that_allows_one_method_lands_by_it(
    tmp_path: Path, allowed: dict[str, Any], method: str
) -> None:
    """P1: whatever the method does to the commits, the landed tree is the tested one."""
    async with a_world(tmp_path, repository=allowed) as world:
        await lands_one_fresh_and_one_behind(world)
        assert {request.body["merge_method"] for request in merges(world)} == {method}


async def test_repository_that_allows_only_rebase_and_does_not_say_so_lands_by_it(tmp_path: Path) -> None:
    """GitHub shows an App no allowed methods in a pull request: each refusal that names one has the next one tried."""
    async with a_world(tmp_path, repository=ONLY_REBASE) as world:
        pull = world.open("add")
        pull.label(LABEL, by="mona")
        await world.until(lambda: pull.merged, within=CI_TIME * 2)
        await world.settle()
        assert [request.body["merge_method"] for request in merges(world)][-1] == "rebase"
        assert await world.reasons(pull) == []
        assert all(len(commit.parents) <= 1 for commit in world.repository.log("main"))


@pytest.mark.thorough
@pytest.mark.parametrize("rule", ["classic", "classic, unread", "ruleset"])
async def test_linear_history_is_kept_where_it_is_required(world: World, rule: str) -> None:
    """Merge commits are allowed by the repository and forbidden by the branch: the next method is taken."""
    if rule == "classic, unread":
        world.grant("administration", None)
    if rule != "ruleset":
        checks = [("ci/test", world.app_id("ci"))]
        world.repository.protect("main", required_checks=checks, required_linear_history=True, by="rhea")
    else:
        world.repository.add_ruleset("linear", linear_history=True, by="rhea")
    await lands_one_fresh_and_one_behind(world)
    # Where the App may not read a repository's settings, GitHub's refusal teaches it.
    assert [request.status for request in merges(world)] == ([405, 200] * 2 if "unread" in rule else [200, 200])


def merges(world: World) -> list[Any]:
    return world.server.requests.of("PUT /repos/{owner}/{repo}/pulls/{number}/merge")


@pytest.mark.thorough
@pytest.mark.parametrize("branch", ["release/1.x", "feature/ünï+cödé#2%2F(a&b)=c"])
async def test_base_branch_of_any_name_is_served(world: World, branch: str) -> None:
    """Slashes and characters that mean something in a URL are part of the name."""
    world.repository.create_branch(branch, "main")
    world.repository.protect(branch, required_checks=[("ci/test", world.app_id("ci"))], by="rhea")
    pull = await world.behind("add", base=branch)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged)
    await world.settle()
    assert world.repository.tree(branch) == world.repository.tree(pull.head_sha)
    assert "anded" in world.comment(pull)


@pytest.mark.thorough
async def test_two_queues_of_one_repository_progress_independently(tmp_path: Path) -> None:
    """The default branch has no special name, and a slow queue beside it holds up nothing."""
    async with a_world(tmp_path, repository={"default_branch": "trunk"}, protect=False) as world:
        world.repository.create_branch("stable", "trunk")
        world.repository.add_ci("ci/slow", settings=CISettings(app="slow", duration=timedelta(hours=1)))
        world.repository.protect("trunk", required_checks=[("ci/test", world.app_id("ci"))])
        world.repository.protect("stable", required_checks=["ci/slow"])
        slow = [world.open(f"slow-{n}", base="stable") for n in range(2)]
        quick = [world.open(f"quick-{n}") for n in range(2)]
        for pull in (*slow, *quick):
            pull.label(LABEL, by="mona")
            await world.settle()
        await world.until(lambda: all(pull.merged for pull in quick), within=CI_TIME * 2 + timedelta(seconds=30))
        assert not any(pull.merged for pull in slow)
        positions = [(entry.number, entry.position) for entry in await world.entries()]
        assert positions == [(slow[0].number, 0), (slow[1].number, 1)]
        await world.until(lambda: all(pull.merged for pull in slow))
        assert world.landed("trunk") == [pull.number for pull in quick]
        assert world.landed("stable") == [pull.number for pull in slow]
