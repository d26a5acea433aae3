"""CI of candidates that IMQ dispatches, on a base branch that is not the default branch."""

from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import Job
from tests.acceptance.test_workflow_permission import accept
from tests.acceptance.train_world import a_train_world, queue_all
from tests.acceptance.world import World

CI = ".github/workflows/tests.yml"
FILE = "on: [pull_request, workflow_dispatch]\njobs:\n  unit:\n    runs-on: ubuntu-latest\n"
CONFIGURATION = "trains: {candidates: dispatch}\n"


async def land_on_release(world: World) -> list[str]:
    """Land two pull requests into `release`, whose workflow `main` has not; returns the events of CI."""
    world.repository.push("release", {CI: FILE, ".github/imq.yml": CONFIGURATION}, "Release", by="rhea")
    runner = world.repository.add_workflow(
        "Tests", path=CI, jobs=[Job("unit")], on=("pull_request", "workflow_dispatch")
    )
    world.repository.protect("release", required_checks=["unit"])
    pulls = [world.open(name, base="release") for name in "ab"]
    await world.pass_time(timedelta(minutes=2))
    queue_all(pulls)
    await world.until(lambda: all(pull.merged for pull in pulls))
    return [run.event for run in runner.runs]


@pytest.mark.parametrize("anywhere", [False, True])
async def test_dispatch_that_the_default_branch_decides_about_is_tried_once(tmp_path: Path, anywhere: bool) -> None:
    """Where GitHub knows no such workflow, pull requests land one by one; where it does, one run tests both."""
    async with a_train_world(tmp_path) as world:
        world.github.actions.dispatches_anywhere = anywhere
        accept(world, webhook=True)
        events = await land_on_release(world)
        async with world.bot.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        reasons = [each.reason for each in history if each.event == "trains_off"]
        assert events.count("workflow_dispatch") == (1 if anywhere else 0)
        assert reasons == ([] if anywhere else ["ci_silent_on_candidates"])


@pytest.mark.thorough
@pytest.mark.parametrize("counts", [False, True])
async def test_train_whose_dispatched_checks_do_not_count_lands_by_merges(tmp_path: Path, counts: bool) -> None:
    """GitHub refuses the push of a candidate at once: its members' own checks count for its merges."""
    async with a_train_world(tmp_path) as world:
        world.github.actions.dispatches_anywhere = True
        world.github.behaviour.dispatched_checks_count = counts
        accept(world, webhook=True)
        events = await land_on_release(world)
        await world.settle()
        assert events.count("workflow_dispatch") == 1
        assert world.requests("PUT /repos/{owner}/{repo}/pulls/{number}/merge") == (0 if counts else 2)
