"""Two-step CI: quick checks run on every push, the long ones only while IMQ tests a pull request.

The workflow of the long ones is the one that docs/configuration.md shows.
"""

from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from github_emulator import Job, Trigger, WorkflowRun, WorkflowRunner
from tests.acceptance.choosing import configure
from tests.acceptance.test_check_outcomes import sound
from tests.acceptance.test_configuration import validate
from tests.acceptance.world import CI_TIME, LABEL, World, a_world

SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)
TESTING = "merge-queue-testing"
QUEUE_ONLY = "checks: {queue_only: e2e}\n"
UPDATE = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
ADD = "POST /repos/{owner}/{repo}/issues/{number}/labels"
TAKE_OFF = "DELETE /repos/{owner}/{repo}/issues/{number}/labels/{name}"
RUNS = "GET /repos/{owner}/{repo}/actions/runs"


def in_the_queue(run: WorkflowRun) -> bool:
    """The condition of the job: IMQ sets the label, or updates a pull request that has it."""
    return run.label == TESTING or (run.label is None and TESTING in run.labels)


@pytest.fixture
async def world(tmp_path: Path, lag: timedelta) -> AsyncIterator[World]:
    """A world whose `main` requires a quick check, and whose long check runs in the queue alone."""
    async with a_world(tmp_path, ci=False, protect=False, lag=lag) as made:
        made.repository.add_workflow("Quick", jobs=[Job("test", duration=20 * SECOND)], on=["pull_request"])
        made.repository.protect("main", required_checks=["test"])
        await configure(made, QUEUE_ONLY)
        yield made


def long_checks(world: World, **more: Any) -> WorkflowRunner:
    """The workflow of the long checks."""
    job = Job("e2e", duration=CI_TIME, guard=in_the_queue, **more)
    trigger = Trigger("pull_request", types=["labeled", "synchronize"])
    workflow: WorkflowRunner = world.repository.add_workflow("In the queue", jobs=[job], on=[trigger])
    return workflow


def ran(workflow: WorkflowRunner) -> list[tuple[str, str | None]]:
    """The head and the conclusion of each long check that ran."""
    jobs = [job for run in workflow.runs for job in run.jobs]
    return [(job.head_sha, job.conclusion) for job in jobs if job.conclusion != "skipped"]


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("behind", [False, True])
async def test_long_checks_run_once_and_on_the_candidate_alone(world: World, behind: bool) -> None:
    """P1: a green head does not land before they passed on it, also one that needs no update."""
    workflow = long_checks(world)
    pull = await world.behind("front") if behind else world.open("front")
    await world.pass_time(CI_TIME)
    assert ran(workflow) == []
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(MINUTE)
    assert TESTING in pull.labels
    assert not pull.merged
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    await world.settle()
    assert ran(workflow) == [(pull.head_sha, "success")]
    assert world.requests(UPDATE) == behind
    assert TESTING not in pull.labels


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("required", [True, False])
async def test_long_check_that_fails_ejects_although_all_others_pass(world: World, required: bool) -> None:
    """P1: whether or not GitHub requires any other check."""
    long_checks(world, judge=sound)
    if not required:
        world.repository.unprotect("main")
        await world.settle()
    pull = world.open("bad", files={"broken": "yes\n"})
    await world.pass_time(MINUTE)
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 4)
    await world.settle()
    assert (pull.merged, await world.reasons(pull)) == (False, ["checks_failed"])
    assert TESTING not in pull.labels


@pytest.mark.lagging
async def test_quick_check_that_fails_counts_where_nothing_else_is_required(world: World) -> None:
    """P1: to name a long check does not make all others optional."""
    world.repository.unprotect("main")
    long_checks(world)
    world.repository.add_workflow("Lint", jobs=[Job("lint", duration=MINUTE, judge=sound)], on=["pull_request"])
    pull = world.open("bad", files={"broken": "yes\n"})
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels, within=CI_TIME * 4)
    assert (pull.merged, await world.reasons(pull)) == (False, ["checks_failed"])


@pytest.mark.thorough
@pytest.mark.lagging
async def test_base_that_moves_has_the_new_update_tested(world: World) -> None:
    """P1: the label is still there, so that the update itself starts the workflow."""
    workflow = long_checks(world)
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(MINUTE)
    world.repository.push("main", {"again.py": "moved\n"}, "Move the base again", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)
    assert len(ran(workflow)) == 2
    assert ran(workflow)[-1] == (pull.head_sha, "success")


@pytest.mark.thorough
@pytest.mark.lagging
async def test_job_that_another_label_skips_passes_nothing(world: World) -> None:
    """P1: GitHub starts the workflow for every label; the skipped job would satisfy a required check of GitHub."""
    workflow = long_checks(world)
    pull = world.open("front")
    await world.pass_time(MINUTE)
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(MINUTE)
    pull.label("docs", by="mona")
    await world.pass_time(MINUTE / 2)
    assert not pull.merged
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    assert len(ran(workflow)) == 1
    skipped = [job for run in workflow.runs for job in run.jobs if job.conclusion == "skipped"]
    assert skipped


@pytest.mark.thorough
@pytest.mark.lagging
async def test_head_whose_long_checks_passed_before_lands_at_once(world: World) -> None:
    """A person set the label to run them; IMQ runs them no second time."""
    workflow = long_checks(world)
    pull = world.open("front")
    pull.label(TESTING, by="mona")
    await world.pass_time(CI_TIME * 2)
    pull.unlabel(TESTING, by="mona")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=30 * SECOND)
    await world.settle()
    assert len(ran(workflow)) == 1
    assert world.requests(ADD) == 0


@pytest.mark.thorough
@pytest.mark.lagging
async def test_hotfix_takes_the_label_from_the_pull_request_that_waits(world: World) -> None:
    """The label is on the pull request that IMQ tests, and on no other."""
    await configure(world, QUEUE_ONLY + "priority: {labels: {hotfix: {hotfix: true, preempts: true}}}\n")
    long_checks(world)
    front, hotfix = world.open("front"), world.open("hotfix")
    await world.pass_time(MINUTE)
    front.label(LABEL, by="mona")
    await world.until_status(front, "checking")
    await world.pass_time(10 * SECOND)
    hotfix.label("hotfix", by="mona")
    hotfix.label(LABEL, by="mona")
    await world.until_status(hotfix, "checking")
    await world.pass_time(10 * SECOND)
    assert (TESTING in front.labels, TESTING in hotfix.labels) == (False, True)
    await world.until(lambda: front.merged and hotfix.merged, within=CI_TIME * 4)
    assert world.landed() == [hotfix.number, front.number]


@pytest.mark.thorough
@pytest.mark.lagging
async def test_label_that_a_person_removed_is_set_for_the_next_candidate(world: World) -> None:
    """Without it the update would start no long check."""
    workflow = long_checks(world)
    pull = await world.behind("front")
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(MINUTE)
    pull.unlabel(TESTING, by="mona")
    world.repository.push("main", {"again.py": "moved\n"}, "Move the base again", by="rhea")
    await world.until(lambda: pull.merged, within=CI_TIME * 4)
    assert ran(workflow)[-1] == (pull.head_sha, "success")


@pytest.mark.lagging
async def test_long_check_that_no_workflow_runs_times_out_and_is_named(world: World) -> None:
    """P5: the repository lacks the workflow."""
    pull = world.open("front")
    await world.pass_time(MINUTE)
    pull.label(LABEL, by="mona")
    await world.until(lambda: LABEL not in pull.labels)
    await world.settle()
    assert (pull.merged, await world.reasons(pull)) == (False, ["checks_timed_out"])
    assert f"no workflow ran e2e after the label {TESTING}" in world.comment(pull)
    assert TESTING not in pull.labels


@pytest.mark.thorough
async def test_queue_only_checks_cost_two_more_requests(world: World) -> None:
    """P7: the label on and off, and no poll for the job that was skipped."""
    long_checks(world)
    await world.land_behind_each_other(1)
    pull = await world.behind("front")
    before = world.requests(), world.requests(ADD), world.requests(TAKE_OFF)
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 2)
    await world.settle()
    assert (world.requests(ADD) - before[1], world.requests(TAKE_OFF) - before[2]) == (1, 2)
    assert world.requests(RUNS) == 0
    assert world.requests() - before[0] <= 14


@pytest.mark.thorough
@pytest.mark.lagging
@pytest.mark.parametrize("behind", [False, True])
async def test_long_checks_of_a_pull_request_that_left_are_cancelled(world: World, behind: bool) -> None:
    """P7: they are the ones that cost; also on a head that IMQ did not update."""
    workflow = long_checks(world)
    pull = await world.behind("front") if behind else world.open("front")
    await world.pass_time(MINUTE)
    pull.label(LABEL, by="mona")
    await world.until_status(pull, "checking")
    await world.pass_time(MINUTE)
    pull.unlabel(LABEL, by="mona")
    await world.pass_time(MINUTE / 2)
    assert ran(workflow) == [(pull.head_sha, "cancelled")]
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME * 3)


@pytest.mark.thorough
@pytest.mark.lagging
async def test_labels_are_created_for_both_purposes(world: World) -> None:
    """At the next sweep, with a description each."""
    await world.pass_time(timedelta(minutes=11))
    label = world.repository.record.labels[TESTING]
    assert label.description == "IMQ sets this label while it tests the pull request"


async def test_validate_says_which_checks_wait_for_the_queue(world: World, tmp_path: Path) -> None:
    """No pull request outside the queue waits for them."""
    long_checks(world)
    pull = world.open("front")
    await world.pass_time(MINUTE)
    target = f"acme/widgets#{pull.number}"
    output = (await validate(world, tmp_path, QUEUE_ONLY, "--against", target, "--by", "mona")).output
    assert f"checks that run in the queue alone pass: e2e; IMQ starts them by {TESTING}" in output
    assert "now test: passed" in output


@pytest.mark.thorough
def test_condition_of_the_job_is_the_documented_one() -> None:
    """The recipe in the documents has the triggers and the condition that these tests run with."""
    text = Path("docs/configuration.md").read_text(encoding="utf-8")
    recipe: Mapping[str, bool] = {
        "types: [labeled, synchronize]": True,
        "github.event.label.name == 'merge-queue-testing'": True,
        "contains(github.event.pull_request.labels.*.name, 'merge-queue-testing')": True,
    }
    assert {line: line in text for line in recipe} == recipe
