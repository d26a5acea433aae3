"""What is withdrawn while a train lands stays out of the base branch (P4), and what landed before ends no other run."""

from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_engine.core.concurrency.request_context import current_work
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.run import RunState
from tests.acceptance.test_own_check import require
from tests.acceptance.train_world import a_train_world, commits_tested, queue_all, ready
from tests.acceptance.world import CI_TIME, LABEL, World


def fail_moves(world: World, times: int) -> list[int]:
    """Have GitHub fail these first moves of the base branch; returns how often each failed."""
    github: Any = world.bot.engine.github
    move = github.update_refs
    failed: list[int] = []

    async def watched(repository: Any, updates: Sequence[Any]) -> None:
        if len(failed) < times and any(update.branch == "main" for update in updates):
            failed.append(len(failed))
            raise Unavailable("502")
        await move(repository, updates)

    object.__setattr__(github, "update_refs", watched)
    return failed


async def test_member_withdrawn_while_github_fails_does_not_land_with_its_train(tmp_path: Path) -> None:
    """The landing had begun: IMQ does not repeat a failed move before it verified the members again (P4)."""
    async with a_train_world(tmp_path) as world:
        kept, gone = await ready(world, "a", "b")
        failed = fail_moves(world, 1)
        queue_all([kept, gone])
        await world.until(lambda: bool(failed))
        gone.unlabel(LABEL, by="mona")
        await world.until(lambda: bool(kept.merged))
        await world.settle()
        assert not gone.merged
        assert await world.entries() == ()
        assert await world.paused() is None


@pytest.mark.thorough
@pytest.mark.parametrize("method", ["merge", "squash"])
async def test_member_withdrawn_while_imq_is_down_does_not_land_with_its_train(tmp_path: Path, method: str) -> None:
    """A process that was killed before the first request of a landing verifies the members again (P2, P4)."""
    async with a_train_world(tmp_path, more=f"merge:\n  method: {method}\n") as world:
        kept, gone = await ready(world, "a", "b")
        stopped: list[str] = []
        github: Any = world.bot.engine.github

        async def stop(*_: Any, **__: Any) -> None:
            if (current_work().holder or "").startswith("queue:"):
                stopped.append("stopped")
            raise Unavailable("killed")

        for name in ("merge",) if method == "squash" else ("update_refs",):
            object.__setattr__(github, name, stop)
        queue_all([kept, gone])
        await world.until(lambda: bool(stopped))
        await world.kill()
        gone.unlabel(LABEL, by="mona")
        await world.restart()
        await world.until(lambda: bool(kept.merged))
        await world.settle()
        assert not gone.merged
        assert await world.paused() is None


@pytest.mark.thorough
async def test_nested_runs_with_squash_land_one_after_the_other(tmp_path: Path) -> None:
    """What landed with an earlier run is no member that left: the later run lands as well, and trains stay on."""
    text = "merge:\n  method: squash\n"
    async with a_train_world(tmp_path, trains="{candidates: push, runs: 2}", more=text) as world:
        pulls = await ready(world, "a", "b")
        for pull in pulls:
            queue_all([pull])
            await world.pass_time(timedelta(minutes=1))
        queued = await world.entries()
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert await world.entries() == ()
        async with world.bot.engine.store.reading() as tx:
            trains = await tx.trains.get(queued[0].queue_id)
        assert trains.memory["off"] is None


@pytest.mark.thorough
async def test_commit_taken_off_the_base_before_the_move_does_not_come_back_with_the_candidate(tmp_path: Path) -> None:
    """P1: IMQ moves the base only from the tip that it tested on, although GitHub would accept the move."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        before = world.repository.sha("main")
        world.repository.push("main", {"mistake.py": "x\n"}, "Mistake", by="rhea")
        await world.pass_time(CI_TIME * 2)
        github: Any = world.bot.engine.github
        move, taken_off = github.update_refs, list[str]()

        async def watched(repository: Any, updates: Sequence[Any]) -> None:
            if not taken_off and any(update.branch == "main" for update in updates):
                taken_off.append(before)
                world.repository.push_commit("main", before, by="rhea", force=True)
            await move(repository, updates)

        object.__setattr__(github, "update_refs", watched)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert taken_off
        assert {"a.py", "b.py"} <= set(world.repository.files("main"))
        assert "mistake.py" not in world.repository.files("main")


@pytest.mark.thorough
async def test_commit_that_somebody_pushes_to_a_build_branch_never_lands(tmp_path: Path) -> None:
    """P4: IMQ proves each merge by its parents, also where the webhook of the push is lost."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        github: Any = world.bot.engine.github
        merge, merged = github.merge_into, list[str]()

        async def watched(repository: Any, branch: str, *more: Any) -> Any:
            merged.append(branch)
            if len(merged) == 2:
                world.repository.push(branch, {"evil.py": "x\n"}, "Evil", by="mona", webhook=False)
            return await merge(repository, branch, *more)

        object.__setattr__(github, "merge_into", watched)
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert len(merged) > 2
        assert {"a.py", "b.py"} <= set(world.repository.files("main"))
        assert "evil.py" not in world.repository.files("main")


@pytest.mark.thorough
async def test_push_onto_a_candidate_whose_move_got_no_answer_leaves_its_members_landed(tmp_path: Path) -> None:
    """IMQ moved the base, lost the answer, and somebody pushed on top: the members landed, each seen once (P2)."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        github: Any = world.bot.engine.github
        move = github.update_refs
        lost: list[str] = []

        async def watched(repository: Any, updates: Sequence[Any]) -> None:
            await move(repository, updates)
            if not lost and any(update.branch == "main" for update in updates):
                lost.append("lost")
                world.repository.push("main", {"more.txt": "0\n"}, "More", by="rhea")
                raise Unavailable("502")

        object.__setattr__(github, "update_refs", watched)
        queue_all(pulls)
        await world.until(lambda: bool(lost))
        await world.settle()
        await world.pass_time(timedelta(minutes=10))
        assert await world.entries() == ()
        for pull in pulls:
            assert pull.merged
            assert await world.reasons(pull) == []
            assert "Landed on" in world.comment(pull)


@pytest.mark.thorough
async def test_run_that_no_plan_knows_ends_and_its_members_are_tested_again(tmp_path: Path) -> None:
    """The memory of plans is lost, as by an older backup: the run ends, and takes no slot of new plans."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        [entry, _] = await world.entries()
        async with world.bot.engine.store.transaction() as tx:
            await tx.trains.remove(entry.queue_id)
            await tx.queues.wake(entry.queue_id, world.clock.now())
        await world.until(lambda: all(pull.merged for pull in pulls))
        async with world.bot.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        assert [each.data["outcome"] for each in history if each.event == "run_ended"] == ["outdated", "landed"]


async def test_run_that_ended_without_its_plan_takes_no_slot(tmp_path: Path) -> None:
    """The plan forgets it, and its members are tested by another one (P5)."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(minutes=1))
        [entry, _] = await world.entries()
        async with world.bot.engine.store.transaction() as tx:
            [run] = await tx.runs.of_queue(entry.queue_id)
            await tx.runs.save(replace(run, state=RunState.ENDED))
            await tx.queues.wake(entry.queue_id, world.clock.now())
        await world.until(lambda: all(pull.merged for pull in pulls), within=timedelta(minutes=30))


@pytest.mark.thorough
async def test_member_that_left_ends_its_run_at_once(tmp_path: Path) -> None:
    """P4, P7: the runners are free before the checks of the others end, which are tested without it."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(seconds=20))
        pulls[0].unlabel(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=20))
        async with world.bot.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        assert [each.data["outcome"] for each in history if each.event == "run_ended"] == ["left"]
        assert [each.data["members"] for each in history if each.event == "run_started"][1:] == [[pulls[1].number]]


async def test_landing_half_done_is_not_ended_by_a_rule_that_requires_imqs_own_check(tmp_path: Path) -> None:
    """P1: the base rests on a prefix that no run tested, so the landing continues: IMQ's check passes first."""
    async with a_train_world(tmp_path, more="merge:\n  method: squash\n") as world:
        pulls = await ready(world, "a", "b")
        github: Any = world.bot.engine.github
        merge, asked = github.merge, list[int]()

        async def stop(repository: Any, number: int, *given: Any, **more: Any) -> Any:
            asked.append(number)
            if len(asked) == 2:
                raise Unavailable("killed")
            return await merge(repository, number, *given, **more)

        object.__setattr__(github, "merge", stop)
        queue_all(pulls)
        await world.until(lambda: len(asked) == 2)
        await world.kill()
        require(world, strict=False)
        await world.restart()
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        async with world.bot.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        assert next(each.data["outcome"] for each in history if each.event == "run_ended") == "landed"
        assert await world.entries() == ()
        assert await world.paused() is None


@pytest.mark.thorough
async def test_entry_tested_by_itself_keeps_its_checks_when_trains_are_switched_off(tmp_path: Path) -> None:
    """It was in no run, so that the end of trains says nothing about its own CI run."""
    kept = "checks: {untested_paths: ['.github/**']}\n"
    async with a_train_world(tmp_path, ci={"branches": ("main",)}, more=kept) as world:
        pulls = await ready(world, "a", "b")
        world.repository.push("main", {"base.py": "x\n"}, "Move", by="rhea")
        queue_all(pulls)
        await world.until(lambda: pulls[0].merged)
        await world.pass_time(timedelta(minutes=1))
        before = commits_tested(world)
        assert await world.status(pulls[1]) == "checking"
        world.repository.push("main", {".github/imq.yml": f"trains: off\n{kept}"}, "No trains", by="rhea")
        await world.until(lambda: pulls[1].merged)
        assert commits_tested(world) - before <= 2
