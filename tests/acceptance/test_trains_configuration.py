"""What `imq validate --against` says of trains, by the workflows that the base branch has.

It also has bases on which trains could not land.
"""

from pathlib import Path

import pytest

from queue_engine.control import pauses
from tests.acceptance.test_configuration import validate
from tests.acceptance.test_freezes import control
from tests.acceptance.test_own_check import require
from tests.acceptance.train_world import a_train_world, queue_all, ready
from tests.acceptance.world import World

CI = ".github/workflows/ci.yml"
TRAINS = "trains: {candidates: auto, runs: 2}\nchecks: {required: [test]}"
JOBS = "jobs:\n  test:\n    runs-on: ubuntu-latest\n    steps:\n      - run: make test\n"


async def preview(world: World, path: Path, workflow: str, text: str = TRAINS) -> str:
    """What the command prints after the base branch got this workflow."""
    pull = world.open("change")
    world.repository.push("main", {CI: workflow})
    await world.settle()
    arguments = ("--against", f"acme/widgets#{pull.number}", "--by", "mona")
    result = await validate(world, path, text, *arguments)
    assert result.exit_code == 0, result.output
    return result.stdout


@pytest.mark.thorough
async def test_validate_names_the_lines_without_which_a_push_runs_no_check(world: World, tmp_path: Path) -> None:
    """A maintainer reads which trigger IMQ would use, why, and what to add for a silent one."""
    shown = await preview(world, tmp_path, f"on: pull_request\n{JOBS}")
    assert "Trains:\n- IMQ would test up to 32 pull requests together, with 2 CI runs at once\n" in shown
    assert "- CI of a train would start by a draft pull request, which costs notifications\n" in shown
    assert (
        f"`test`: `{CI}` does not run on `push`\n- by pull_request: perhaps; `ci/test`: another App reports it" in shown
    )
    assert (
        f"- so that a push runs its checks, {CI} needs:\n    on:\n      push:\n        branches: ['imq/**']\n" in shown
    )


@pytest.mark.thorough
async def test_validate_says_when_no_line_is_missing(world: World, tmp_path: Path) -> None:
    """Where a push runs every check of the workflows, there is nothing to add."""
    shown = await preview(world, tmp_path, f"on:\n  push:\n    branches: [main, 'imq/**']\n{JOBS}")
    assert "- CI of a train would start by a push of its branch\n" in shown
    assert "needs:" not in shown


async def test_validate_names_the_checks_that_judge_the_pull_request(world: World, tmp_path: Path) -> None:
    """A maintainer reads which results count from the pull requests, and gets no line that would run them on a push."""
    title = "  title: {steps: [{uses: amannn/action-semantic-pull-request@v6}]}\n"
    shown = await preview(world, tmp_path, f"on: pull_request\n{JOBS}{title}", TRAINS.replace("test]", "test, title]"))
    assert (
        "- from the head of each pull request, since they judge it and not the tree, IMQ would take: `title`" in shown
    )
    assert "`title`:" not in shown


async def test_validate_names_the_filter_without_which_building_a_train_starts_ci(world: World, tmp_path: Path) -> None:
    """A maintainer reads how to keep CI from running for each pull request."""
    shown = await preview(world, tmp_path, f"on: [push, pull_request]\n{JOBS}")
    lines = "    on:\n      push:\n        branches-ignore: ['imq-build/**']\n"
    assert f"while IMQ builds a train, {CI} needs:\n{lines}" in shown


@pytest.mark.thorough
async def test_validate_without_trains_asks_for_no_workflows(world: World, tmp_path: Path) -> None:
    """A configuration without trains costs no request more, and reads nothing of them."""
    shown = await preview(world, tmp_path, f"on: push\n{JOBS}", "checks: {required: [test]}")
    assert "Trains:" not in shown


@pytest.mark.thorough
@pytest.mark.parametrize("before", [True, False], ids=["before_queueing", "after_queueing"])
async def test_base_that_requires_imqs_own_check_builds_no_candidate(tmp_path: Path, before: bool) -> None:
    """No CI run is spent on a candidate that could not land: IMQ's check passes on one head at a time."""
    async with a_train_world(tmp_path) as world:
        pulls = await ready(world, "a", "b")
        if before:
            require(world, strict=False)
            await world.settle()
        await control(world, pauses.pause, reason="wait")
        queue_all(pulls)
        await world.settle()
        if not before:
            require(world, strict=False)
        await control(world, pauses.resume)
        await world.until(lambda: all(pull.merged for pull in pulls))
        assert world.requests("POST /repos/{owner}/{repo}/git/refs") == 0
        assert [await world.reasons(pull) for pull in pulls] == [[], []]
