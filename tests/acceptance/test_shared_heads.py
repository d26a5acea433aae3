"""One head branch with pull requests into two base branches, both of which are queued.

Covers `queue_engine/admission/shared_heads.py`.
"""

from typing import Any

import pytest

from tests.acceptance.world import CI_TIME, LABEL, World

UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"


async def shared(world: World, *, contains: bool) -> tuple[Any, Any]:
    """Pull requests of one branch into `main` and `develop`; `main` moved since, and `develop` may contain that."""
    repository = world.repository
    repository.create_branch("develop", "main")
    into_main = world.open("fix")
    into_develop = repository.open_pull_request("Fix develop", head="fix", base="develop", by="mona")
    await world.pass_time(CI_TIME * 2)
    repository.push("main", {"past.py": "moved\n"}, "Move the base", by="rhea")
    if contains:
        repository.push_commit("develop", repository.sha("main"), by="rhea")
    await world.settle()
    return into_main, into_develop


async def held_in_develop(world: World, into_main: Any, into_develop: Any) -> None:
    """Queue both, the one into `develop` first, whose queue is paused: it waits while IMQ updates the branch."""
    into_develop.comment("/pause", by="rhea")
    await world.settle()
    into_develop.label(LABEL, by="mona")
    await world.settle()
    into_main.label(LABEL, by="mona")
    await world.until(lambda: into_main.merged, within=CI_TIME * 4)


@pytest.mark.lagging
async def test_update_for_one_base_is_no_push_to_the_pull_request_into_a_base_that_contains_it(world: World) -> None:
    """P4: the update brings `develop` nothing new, as its parents prove; both land."""
    into_main, into_develop = await shared(world, contains=True)
    await held_in_develop(world, into_main, into_develop)
    assert into_develop.head_sha == into_main.head_sha
    into_develop.comment("/resume", by="rhea")
    await world.until(lambda: into_develop.merged, within=CI_TIME * 4)
    assert await world.reasons(into_develop) == []


@pytest.mark.lagging
async def test_update_for_one_base_names_itself_where_it_ends_the_consent_for_another(world: World) -> None:
    """P4: `develop` lacks what the update brought; its author reads which pull request that was for."""
    into_main, into_develop = await shared(world, contains=False)
    await held_in_develop(world, into_main, into_develop)
    await world.settle()
    assert LABEL not in into_develop.labels
    assert await world.reasons(into_develop) == ["updated_for_another"]
    assert f"#{into_main.number}, queued for main" in world.comment(into_develop)
