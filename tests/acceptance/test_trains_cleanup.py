"""What trains leave behind, and which runs they save, with a workflow of GitHub Actions."""

from datetime import timedelta
from pathlib import Path

from tests.acceptance.train_stage import a_train_world
from tests.acceptance.world import LABEL, LAG


async def test_branches_go_once_a_missing_permission_is_back(tmp_path: Path) -> None:
    """P5: IMQ lacks the permission when a run ends, and deletes the branches later."""
    async with a_train_world(tmp_path) as trains:
        (pull,) = await trains.queued(0)
        await trains.world.pass_time(timedelta(minutes=1))
        assert trains.branches()
        trains.world.grant("contents", "read")
        pull.unlabel(LABEL, by="mona")
        await trains.world.pass_time(timedelta(minutes=30))
        assert trains.branches()
        trains.world.grant("contents", "write")
        await trains.world.pass_time(timedelta(hours=1))
        assert trains.branches() == []


async def test_base_whose_move_reads_do_not_show_yet_is_read_again_later(tmp_path: Path) -> None:
    """P7: the webhook comes before reads show the new tip; IMQ waits between its reads."""
    async with a_train_world(tmp_path) as trains:
        (pull,) = await trains.queued(0)
        await trains.world.pass_time(timedelta(minutes=1))
        trains.world.server.lag.set(LAG)
        before = trains.world.requests("GET /repos/{owner}/{repo}/branches/{branch}")
        trains.world.repository.push("main", {"hand.py": "x\n"}, "By hand", by="rhea")
        await trains.world.until(lambda: pull.merged)
        assert trains.world.requests("GET /repos/{owner}/{repo}/branches/{branch}") - before < 12


async def test_member_that_failed_in_a_group_fails_alone_without_a_second_attempt(tmp_path: Path) -> None:
    """No tree is tested twice: the failure of the group is the proof that the check did not flake."""
    async with a_train_world(tmp_path) as trains:
        bad, good = await trains.queued(7, 0)
        trains.world.repository.push("main", {"four.txt": "4\n"}, "Four", by="rhea")
        await trains.world.until(lambda: good.merged and LABEL not in bad.labels)
        assert [run.attempt for run in trains.candidate_runs()] == [1, 1, 1]
        assert await trains.world.reasons(bad) == ["checks_failed"]
