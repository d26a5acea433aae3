"""What trains leave behind, and which runs they save, with a workflow of GitHub Actions."""

from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from queue_engine.domain.model import TimelineEvent
from tests.acceptance.train_stage import TrainWorld, a_train_world
from tests.acceptance.world import LABEL, LAG


@pytest.mark.thorough
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


@pytest.mark.thorough
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


@pytest.mark.thorough
async def test_member_that_failed_in_a_group_fails_alone_without_a_second_attempt(tmp_path: Path) -> None:
    """No tree is tested twice: the failure of the group is the proof that the check did not flake."""
    async with a_train_world(tmp_path) as trains:
        bad, good = await trains.queued(7, 0)
        trains.world.repository.push("main", {"four.txt": "4\n"}, "Four", by="rhea")
        await trains.world.until(lambda: good.merged and LABEL not in bad.labels)
        assert [run.attempt for run in trains.candidate_runs()] == [1, 1, 1]
        assert await trains.world.reasons(bad) == ["checks_failed"]


_MERGES, _DELETIONS = "POST /repos/{owner}/{repo}/merges", "DELETE /repos/{owner}/{repo}/git/refs/{ref}"


async def _history(trains: TrainWorld) -> tuple[TimelineEvent, ...]:
    """Return the events of the queue."""
    async with trains.world.bot.engine.store.reading() as tx:
        return await tx.timeline.of_pull_request(trains.world.repository.record.id, 0)


async def _bisect(trains: TrainWorld) -> list[Any]:
    """Queue five pull requests, of which the last fails on the base that has moved; wait until all are resolved."""
    pulls = await trains.queued(0, 0, 0, 0, 7)
    trains.world.repository.push("main", {"four.txt": "4\n"}, "Four", by="rhea")
    await trains.world.until(lambda: all(pull.merged != (pull is pulls[-1]) for pull in pulls))
    await trains.world.until(lambda: LABEL not in pulls[-1].labels)
    await trains.world.settle()
    return pulls


@pytest.mark.thorough
async def test_parts_of_a_failed_run_are_merged_once_and_their_branches_go_together(tmp_path: Path) -> None:
    """P7: the commits of the failed run serve its parts, and one request deletes both branches of a run."""
    async with a_train_world(tmp_path) as trains:
        before = trains.world.requests(_MERGES)
        pulls = await _bisect(trains)
        members = [len(each.data["members"]) for each in await _history(trains) if each.event == "run_started"]
        merges = trains.world.requests(_MERGES) - before
        assert merges <= len(pulls) + 1 < sum(members)
        assert trains.branches() == []
        trees = [trains.world.repository.record.git.tree(run.tested_sha) for run in trains.candidate_runs()]
        # The last member alone has the tree of the first run. A second failure shows that the first was no flake.
        assert [tree for tree, count in Counter(trees).items() if count > 1] in ([], [trees[0]])


async def test_parts_of_a_failed_run_are_merged_again_where_github_dropped_their_commits(tmp_path: Path) -> None:
    """P5: trains stay on, and the same pull requests land."""
    async with a_train_world(tmp_path) as trains:
        trains.world.github.behaviour.unreachable_commits_kept = False
        pulls = await _bisect(trains)
        assert [pull.merged for pull in pulls] == [True] * 4 + [False]
        assert "trains_off" not in {each.event for each in await _history(trains)}
        assert trains.branches() == []


async def test_pull_request_that_is_queued_again_is_tested_on_a_commit_of_its_own(tmp_path: Path) -> None:
    """P1: the commit of the run that ended has checks already, here cancelled ones."""
    async with a_train_world(tmp_path) as trains:
        (pull,) = await trains.queued(0)
        await trains.world.pass_time(timedelta(minutes=1))
        pull.unlabel(LABEL, by="mona")
        await trains.world.pass_time(timedelta(minutes=1))
        pull.label(LABEL, by="mona")
        await trains.world.until(lambda: pull.merged)
        tested = [run.tested_sha for run in trains.candidate_runs()]
        assert len(tested) == len(set(tested)) == 2
