"""How trains judge checks: what starts them, a red base, flakes, skipped checks, and other ways to merge."""

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path

import pytest

from queue_engine.domain.reasons import Reason
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, LAG


async def test_red_base_holds_the_train_and_ejects_no_member(tmp_path: Path) -> None:
    """If the check also fails on the base, no member causes it: the queue waits for the base."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        world.repository.push("main", {"limits.txt": "20\n"}, "Too much", by="rhea")
        await world.pass_time(CI_TIME * 2)
        queue_all(pulls)
        await world.pass_time(CI_TIME * 3)
        assert [each.number for each in await world.entries()] == [pull.number for pull in pulls]
        async with world.bot.engine.store.reading() as tx:
            [red] = [queue.red for queue in await tx.queues.all() if queue.red is not None]
        assert red.check == "ci/test"
        world.repository.push("main", {"limits.txt": "0\n"}, "Back", by="rhea")
        await world.until(lambda: all(pull.merged for pull in pulls))


@pytest.mark.thorough
async def test_probe_finds_that_only_drafts_start_ci(tmp_path: Path) -> None:
    """With `auto` and a provider whose rules IMQ cannot read, the first run shows what starts its checks."""
    ci = {"on": ("pull_request",), "branches": ("main",)}
    async with a_train_world(tmp_path, trains="{candidates: auto}", ci=ci) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
        before = len(world.repository.record.pulls)
        more = await ready(world, "c", "d")
        queue_all(more)
        await world.until(lambda: all(pull.merged for pull in more))
        # A trigger that has worked is used at once.
        assert len(world.repository.record.pulls) == before + 3


@pytest.mark.thorough
async def test_rebase_lands_each_member_with_the_tree_that_was_tested(tmp_path: Path) -> None:
    """GitHub makes other commits than the candidate has; their trees are compared after each step."""
    async with a_train_world(tmp_path, more="merge:\n  method: rebase\n") as world:
        pulls = await ready(world, "a", "b", "c")
        before = commits_tested(world)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert await world.paused() is None
        assert commits_tested(world) - before <= 4


async def test_flaky_job_of_a_single_member_runs_again_and_passes(tmp_path: Path) -> None:
    """A failed job counts against a member only after it failed again."""
    judged: list[bool] = []

    def fails_once(files: Mapping[str, str]) -> bool:
        judged.extend([True] if "a.py" in files else [])
        return "a.py" not in files or len(judged) != 2

    async with a_train_world(tmp_path, ci={"workflow": "CI", "judge": fails_once}) as world:
        pulls = await ready(world, "a")
        queue_all(pulls)
        await world.until(lambda: pulls[0].merged)
        assert await world.reasons(pulls[0]) == []
        assert len(judged) >= 3


@pytest.mark.thorough
@pytest.mark.parametrize("lag", [timedelta(0), LAG], ids=["at_once", "lagging"])
async def test_push_to_the_base_between_result_and_landing_is_tested_again(tmp_path: Path, lag: timedelta) -> None:
    """P1: a push that comes with the landing itself makes the move of the base fail, and the members wait for CI."""
    async with a_train_world(tmp_path, lag=lag) as world:
        pulls = await ready(world, "a", "b")
        pushed: list[str] = []

        def push() -> None:
            pushed.append(world.repository.push("main", {"hand.py": "x\n"}, "By hand", by="rhea"))

        queue_all(pulls)
        await world.pass_time(CI_TIME - timedelta(seconds=20))
        world.meanwhile("GET /repos/{owner}/{repo}/commits/{ref}/check-runs", push)
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert len(pushed) == 1
        assert {"hand.py", "a.py", "b.py"} <= set(world.repository.files("main"))
        assert await world.paused() is None


@pytest.mark.thorough
async def test_member_whose_label_is_removed_leaves_alone(tmp_path: Path) -> None:
    """P4: the others are tested without it."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b", "c")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        pulls[0].unlabel(LABEL, by="mona")
        await world.until(lambda: pulls[1].merged and pulls[2].merged)
        assert not pulls[0].merged
        assert await world.reasons(pulls[0]) == [Reason.LABEL_REMOVED]
