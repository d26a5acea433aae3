"""P1: GitHub Actions tests a head merged with its base of that time, so a later change of base leaves it untested."""

from collections.abc import AsyncIterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Job, Trigger
from queue_engine.domain.landing_record import LandingResult
from tests.acceptance.landing_witness import landings
from tests.acceptance.test_checks_that_never_come import outside
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

LIBRARY, USER = {"lib.py": "1\n"}, {"uses.py": "1\n"}


@pytest.fixture(params=[True, False], ids=["required", "optional"])
async def world(tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[World]:
    """`uses.py` fails without `lib.py`, by one workflow for pushes and pull requests."""
    async with a_world(tmp_path, ci=False, protect=False) as made:
        made.repository.add_workflow(
            jobs=[Job("test", duration=CI_TIME, judge=lambda files: "uses.py" not in files or "lib.py" in files)],
            on=[Trigger("push", branches=["main", "imq/**"]), "pull_request"],
        )
        if request.param:
            made.repository.protect("main", required_checks=["test"])
        await made.pass_time(CI_TIME * 2)
        yield made


async def passed_with_library(world: World, base: str) -> Any:
    """A pull request for this branch, which alone has the library; its head, from before, passes merged with it."""
    old = world.repository.sha("main")
    if base != "main":
        world.repository.create_branch(base, old, by="rhea")
    world.repository.push(base, LIBRARY, "Add the library", by="rhea")
    world.repository.push_commit("uses", world.repository.commit(USER, old, "Use it", by="mona"), by="mona")
    pull = world.repository.open_pull_request("Use it", head="uses", base=base, by="mona")
    await world.pass_time(CI_TIME * 3)
    return pull


async def assert_waits(world: World, pull: Any) -> None:
    """It waits outside the queue, and says why and what to do; nothing landed."""
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 4)
    assert not pull.merged
    assert await outside(world, pull) == ("tested_on_another_base", "test")
    assert "tested another merge" in world.comment(pull)
    assert "Push a commit" in world.comment(pull)
    await world.pass_time(timedelta(hours=8))
    assert not pull.merged
    assert await world.reasons(pull) == ["tested_on_another_base"]


@pytest.mark.parametrize("away", [False, True])
async def test_pull_request_for_another_branch_lands_only_once_it_was_tested_on_this_one(
    world: World, away: bool
) -> None:
    """Its author alone could land an untested tree so: a new base starts no workflow. A push ends the wait."""
    pull = await passed_with_library(world, "dev")
    if away:
        await world.kill()
    pull.edit_base("main", by="mona")
    if away:
        await world.restart()
    await world.pass_time(CI_TIME)
    await assert_waits(world, pull)
    pull.push(LIBRARY, by="mona")
    await world.pass_time(CI_TIME * 3)
    if await world.entry(pull) is None and not pull.merged:
        pull.label(LABEL, by="mona")
    await world.until(lambda: bool(pull.merged))
    await world.settle()
    assert [each.result for each in await landings(world.bot.engine.store)] == [LandingResult.EQUAL]


async def test_head_that_fails_on_every_candidate_does_not_land_by_its_old_checks(world: World) -> None:
    """Where candidates fail a check that heads pass, trains go off, and the pull request is judged by its own head."""
    world.repository.push("main", {".github/imq.yml": "trains: {candidates: push}\n"}, "Configure IMQ", by="rhea")
    await world.pass_time(CI_TIME * 2)
    pull = await passed_with_library(world, "dev")
    pull.edit_base("main", by="mona")
    await world.pass_time(CI_TIME)
    pull.label(LABEL, by="mona")
    await world.pass_time(CI_TIME * 20)
    assert not pull.merged


async def test_base_that_was_moved_back_leaves_its_pull_requests_untested(world: World) -> None:
    """The head contains the old tip, so it looks up to date."""
    old = world.repository.sha("main")
    pull = await passed_with_library(world, "main")
    world.repository.push_commit("main", old, by="rhea", force=True)
    await world.pass_time(CI_TIME)
    await assert_waits(world, pull)


async def test_head_that_was_pushed_after_the_change_of_base_lands(world: World) -> None:
    """Its checks began on the present base."""
    pull = world.open("add", base="main")
    world.repository.create_branch("dev", world.repository.sha("main"), by="rhea")
    pull.edit_base("dev", by="mona")
    pull.edit_base("main", by="mona")
    await world.pass_time(CI_TIME)
    pull.push({"more.py": "1\n"}, by="mona")
    await world.pass_time(CI_TIME * 2)
    pull.label(LABEL, by="mona")
    await world.until(lambda: bool(pull.merged))
