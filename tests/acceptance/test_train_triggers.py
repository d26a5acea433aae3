"""What starts CI on a candidate, and other runs on its commit: of a push to any branch, of somebody else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from github_emulator import Job, RecordedCall, Trigger, WorkflowRun, WorkflowRunner
from tests.acceptance.project import total_at_most_ten
from tests.acceptance.test_train_refusals import events
from tests.acceptance.test_workflow_permission import accept
from tests.acceptance.train_stage import CHECK, WORKFLOW, a_train_world, configure
from tests.acceptance.train_world import queue_all, ready
from tests.acceptance.world import CI_TIME, World, a_world

_FILE = f"on: [push, pull_request]\njobs: {{{CHECK}: {{runs-on: ubuntu-latest, steps: [{{run: make test}}]}}}}\n"


@asynccontextmanager
async def a_watched_world(directory: Path, trains: str = "push") -> AsyncIterator[tuple[World, WorkflowRunner]]:
    """A world whose workflow runs on pushes to any branch, and on pull requests; on pushes a gate tests nothing."""
    async with a_world(directory, ci=False, protect=False) as made:

        def tests(run: WorkflowRun) -> bool:
            file = made.repository.record.git.files(run.tested_sha)[WORKFLOW]
            return run.event == "pull_request" or "always()" not in file

        made.repository.push("main", {WORKFLOW: _FILE}, "CI", by="rhea")
        job = Job(CHECK, duration=CI_TIME, judge=total_at_most_ten, tests=tests)
        runner = made.repository.add_workflow(
            "CI", jobs=[job], on=[Trigger("push"), Trigger("pull_request")], path=WORKFLOW
        )
        actions = made.github.actions.app(made.repository.record)
        made.repository.protect("main", required_checks=[(CHECK, actions.id)], by="rhea")
        configure(made, f"{{candidates: {trains}}}")
        await made.pass_time(CI_TIME * 2)
        yield made, runner


async def test_pull_request_that_a_person_opens_from_a_candidate_fails_no_train(tmp_path: Path) -> None:
    """Its check fails on another base: the run on the push counts, and the members land with one CI run."""
    async with a_watched_world(tmp_path) as (world, runner):
        world.repository.push("other", {"limit.txt": "20\n"}, "Other", by="rhea")
        pulls = await ready(world, "a", "b")
        queue_all(pulls)
        await world.pass_time(timedelta(seconds=20))
        [branch] = [name for name in world.repository.record.git.branches() if name.startswith("imq/")]
        world.repository.open_pull_request("Look", head=branch, base="other", by="hubot")
        await world.until(lambda: all(pull.merged for pull in pulls))
        await world.settle()
        assert {run.event for run in runner.runs if run.suite.head_branch == branch} == {"push", "pull_request"}
        assert [each[0] for each in await events(world)].count("run_started") == 1


async def test_end_of_a_run_leaves_ci_of_a_later_run_with_the_same_commit(tmp_path: Path) -> None:
    """P5: equal merges within a second are one commit, and each run cancels the CI of its own branch alone."""
    async with a_watched_world(tmp_path) as (world, runner):
        pulls = await ready(world, "a", "b")
        done: list[str] = []

        async def hook(exchange: RecordedCall) -> None:
            branches = [name for name in world.repository.record.git.branches() if name.startswith("imq/")]
            if branches and not done:
                done.append(world.repository.sha(branches[0]))
                world.repository.push(branches[0], {"smuggled.py": "x\n"}, "Smuggle", by="hubot")

        world.server.on_request = hook
        queue_all(pulls)
        await world.until(lambda: all(pull.merged for pull in pulls))
        of_candidate = [run for run in runner.runs if run.suite.head_sha == done[0]]
        published = {run.suite.head_branch for run in of_candidate if str(run.suite.head_branch).startswith("imq/")}
        assert len(published) == 2
        happened = await events(world)
        assert [each[2] for each in happened if each[0] == "run_ended"] == ["branch_changed", "landed"]


async def test_push_that_conflicts_with_a_draft_leaves_drafts_as_the_trigger(tmp_path: Path) -> None:
    """GitHub tests no draft that conflicts with its base: that is the push's doing, and trains stay on."""
    async with a_train_world(tmp_path, trains="{candidates: pull_request}", on=("pull_request",)) as trains:
        world = trains.world

        def push() -> None:
            world.repository.push("main", {"add-1.py": "by hand\n"}, "By hand", by="rhea")

        world.meanwhile("POST /repos/{owner}/{repo}/pulls", push)
        first, second = await trains.queued(0, 0)
        await world.until(lambda: bool(second.merged))
        await world.settle()
        assert await world.reasons(first) == ["conflict"]
        async with world.bot.engine.store.reading() as tx:
            history = await tx.timeline.of_pull_request(world.repository.record.id, 0)
        assert [each.event for each in history if each.event == "trains_off"] == []


def _of_pull_request(run: WorkflowRun) -> bool:
    return run.event == "pull_request"


def _of_a_person(run: WorkflowRun) -> bool:
    return run.event == "pull_request" and not str(run.suite.head_branch).startswith("imq/")


_GATE = """on: [push, pull_request]
jobs:
  total: {if: github.event_name == 'pull_request', runs-on: ubuntu-latest, steps: [{run: make total}]}
  test:
    if: always()
    needs: total
    runs-on: ubuntu-latest
    steps: [{run: "! ${{ contains(needs.*.result, 'failure') }}"}]
"""
_VARIABLE = """on: [push, pull_request]
env: {IS_PR: "${{ github.event_name == 'pull_request' }}"}
jobs: {test: {runs-on: ubuntu-latest, steps: [{uses: actions/checkout@v5}, {run: ./ci/test.sh}]}}
"""
_NO_DRAFTS = """on: pull_request
jobs:
  total: {if: '!github.event.pull_request.draft', runs-on: ubuntu-latest, steps: [{run: make total}]}
  test:
    if: always()
    needs: total
    runs-on: ubuntu-latest
    steps: [{run: "! ${{ contains(needs.*.result, 'failure') }}"}]
"""
_PLAIN = _VARIABLE.replace(_VARIABLE.splitlines()[1], "env: {}")
_SCRIPT = "#!/bin/sh\n. ./ci/lib.sh\ntotal\n"
_LIBRARY = 'total() { [ "$GITHUB_EVENT_NAME" = push ] || make total; }\n'
_WORKSPACE = _PLAIN.replace("./ci/test.sh", "pnpm -r test")
_IN_WORKSPACE = '{"scripts": {"test": "test $GITHUB_EVENT_NAME = push || make total"}}\n'
_TOTAL = Job("total", duration=CI_TIME, judge=total_at_most_ten, guard=_of_pull_request)
_GATE_JOB = Job(CHECK, needs=("total",), always=True, judge=total_at_most_ten, tests=_of_pull_request)
"""It is red where `total` is, which is skipped on pushes."""
_OF_PEOPLE = (replace(_TOTAL, guard=_of_a_person), replace(_GATE_JOB, tests=_of_a_person))
_ONLY_IN_PULLS = Job(CHECK, duration=CI_TIME, judge=total_at_most_ten, tests=_of_pull_request)


@pytest.mark.every_variant
@pytest.mark.parametrize(
    ("files", "jobs", "wanted", "reasons"),
    [
        ({WORKFLOW: _GATE}, (_TOTAL, _GATE_JOB), "auto", []),
        ({WORKFLOW: _PLAIN, "ci/test.sh": _SCRIPT, "ci/lib.sh": _LIBRARY}, (_ONLY_IN_PULLS,), "auto", []),
        ({WORKFLOW: _WORKSPACE, "modules/a/package.json": _IN_WORKSPACE}, (_ONLY_IN_PULLS,), "auto", []),
        ({WORKFLOW: _VARIABLE}, (_ONLY_IN_PULLS,), "push", ["ci_unproven_on_candidates"]),
        ({WORKFLOW: _NO_DRAFTS}, _OF_PEOPLE, "auto", ["ci_silent_on_candidates"]),
    ],
    ids=[
        "gate_over_skipped_job",
        "script_of_the_repository",
        "package_of_a_workspace",
        "push_by_configuration",
        "gate_without_drafts",
    ],
)
async def test_halves_that_are_red_together_land_by_nothing_that_tests_nothing(
    tmp_path: Path, files: dict[str, str | None], jobs: tuple[Job, ...], wanted: str, reasons: list[str]
) -> None:
    """P1: a push, or a draft, is green there without a test. IMQ tries neither, and only one of the halves lands.

    `tests/unit/queue_engine/workflows/cases` has some hundred further ways, each as the judgement of its files.
    """
    async with a_world(tmp_path, ci=False, protect=False) as world:
        world.repository.push("main", files, "CI", by="rhea")
        on = ["pull_request"] if files == {WORKFLOW: _NO_DRAFTS} else ["push", "pull_request"]
        runner = world.repository.add_workflow("CI", jobs=jobs, on=on, path=WORKFLOW)
        actions = world.github.actions.app(world.repository.record)
        world.repository.protect("main", required_checks=[(CHECK, actions.id)], by="rhea")
        configure(world, f"{{candidates: {wanted}}}")
        await world.pass_time(CI_TIME * 2)
        pulls = [world.open(f"half-{each}", files={f"half-{each}.txt": "6\n"}) for each in (1, 2)]
        await world.pass_time(CI_TIME * 3)
        queue_all(pulls)
        await world.until(lambda: any(pull.merged for pull in pulls))
        await world.pass_time(CI_TIME * 6)
        assert [pull.merged for pull in pulls].count(True) == 1
        assert total_at_most_ten(world.repository.record.git.files(world.repository.sha("main")))
        assert [each[1] for each in await events(world) if each[0] == "trains_off"] == reasons
        on_candidates = {run.event for run in runner.runs if str(run.suite.head_branch).startswith("imq/")}
        assert on_candidates == set() if reasons else "pull_request" in on_candidates
        # No run was started by a push first, and found to have tested nothing.
        assert "untested" not in {each[2] for each in await events(world)}


@pytest.mark.thorough
async def test_member_that_changes_what_a_push_tests_lands_no_halves_that_are_red_together(tmp_path: Path) -> None:
    """P1: a push of the candidate takes its own files, whose gate tests nothing there: a draft tests both halves."""
    async with a_watched_world(tmp_path, "auto") as (world, runner):
        accept(world, webhook=True)
        changes = [{WORKFLOW: _GATE.replace("total", "sum")}, {}]
        pulls = [world.open(f"h{n}", files={f"{n}.txt": "6\n", **more}) for n, more in enumerate(changes)]
        await world.pass_time(CI_TIME * 2)
        queue_all(pulls)
        await world.until(lambda: any(pull.merged for pull in pulls))
        await world.pass_time(CI_TIME * 6)
        assert [pull.merged for pull in pulls].count(True) == 1
        together = [run for run in runner.runs if run.suite.head_branch == "imq/main/1"]
        assert "pull_request" in {run.event for run in together}
