"""Branches that people made under the names of those of trains: IMQ uses others, and deletes none of theirs."""

from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest

from tests.acceptance.callers import caller
from tests.acceptance.test_progress import QUEUE
from tests.acceptance.test_train_refusals import events
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import LABEL


async def test_branch_that_a_person_made_under_the_name_of_a_run_stays(tmp_path: Path) -> None:
    """IMQ takes other names, and deletes no work of others."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        taken = ["imq/main/1", "imq-build/main/2"]
        for name in taken:
            world.repository.push(name, {f"{name}.py": "work\n"}, "Work", by="mona")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(timedelta(minutes=1))
        left = {name for name in world.repository.record.git.branches() if name.startswith("imq")}
        assert left == set(taken)


@pytest.mark.thorough("False")
@pytest.mark.parametrize("kind", ["imq", "imq-build"])
@pytest.mark.parametrize("is_dequeued", [True, False])
async def test_branch_of_a_run_to_which_a_person_pushed_stays(tmp_path: Path, kind: str, is_dequeued: bool) -> None:
    """P4: IMQ deletes a branch where it left it; a person's commit is on no other branch."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        git = world.repository.record.git
        await world.until(lambda: any(name.startswith("imq/") for name in git.branches()))
        await world.settle()
        name = next(name for name in git.branches() if name.startswith(f"{kind}/"))
        world.repository.push(name, {"work.py": "work\n"}, "Work", by="mona")
        pushed = git.branch(name)
        if is_dequeued:
            for pull in pulls:
                pull.unlabel(LABEL, by="mona")
        else:
            await world.until(lambda: all(pull.merged for pull in pulls))
        await world.pass_time(timedelta(minutes=30))
        assert {each: git.branch(each) for each in git.branches() if each.startswith("imq")} == {name: pushed}


@pytest.mark.parametrize("name", ["imq", "imq-build/main"])
async def test_branch_in_the_way_of_those_of_trains_is_named(
    tmp_path: Path, name: str, session: aiohttp.ClientSession
) -> None:
    """GitHub refuses IMQ's branch without a reason; pull requests land one by one, and maintainers read the reason."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        world.repository.create_branch(name, by="mona")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        [detail] = [detail for event, _, detail in await events(world) if event == "trains_off"]
        assert detail == f"Reference update failed: the branch {name} is in the way"
        shown = (await (await caller(world, session)).ask("GET", QUEUE)).body
        assert (shown["fallback"]["detail"], shown["runs"]) == (detail, [])
