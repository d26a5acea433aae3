"""What checks decide right before a landing: GitHub's refusals for them, and those that count from members' heads."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.executor.candidate import learn_of_workflows
from queue_engine.executor.run_landing import own_heads_pass
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.merge_errors import misses_checks
from queue_engine.store import Store
from tests.unit.queue_engine.examples import report
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


@pytest.mark.parametrize(
    ("message", "misses"),
    [
        ('Required status check "ci/test" is expected.', True),
        ('Required status check "pull request" is in progress.', True),
        ("2 of 3 required status checks have not succeeded: 1 expected and 1 pending.", True),
        ("Code scanning is waiting for results from CodeQL for the commit 1a2b3c4.", True),
        ("Changes must be made through a pull request.", False),
        ('Changes must be made through a pull request. Required status check "a" is expected.', False),
        ('Cannot update this protected ref: "status check" owns it.', False),
    ],
)
def test_misses_checks_goes_by_words_outside_of_names(message: str, misses: bool) -> None:
    """A rule that no check can meet has IMQ land by merges at once."""
    assert misses_checks(message) is misses


TITLE = report("title", app_id=15368)
RED = replace(TITLE, state=CheckState.FAILED)
RUNS = replace(TITLE, state=CheckState.PENDING)


async def passed(store: Store, github: TrainGitHub, *names: str) -> tuple[TrainState, Run]:
    """A run of two that passed, with these checks that count from the members' heads."""
    both = [RunMember(each, "", f"head-{each}", commit=f"c{each}", tree=f"t{each}") for each in (1, 2)]
    state, run = await a_state(
        store, github, (1, 2), members=both, candidate="c2", state=RunState.PASSED, base_tip="base-1"
    )
    await state.remember(
        replace(state.memory, pull_request_checks=("title",), pull_request_checks_in_runs={"1": names})
    )
    return state, run


@pytest.mark.parametrize(
    ("required", "first", "second", "passes", "left"),
    [
        (("ci", "title"), TITLE, TITLE, True, 2),
        (("ci", "title"), TITLE, RED, False, 1),
        (("ci", "title"), RUNS, TITLE, False, 2),
        (("ci", "title"), None, TITLE, False, 2),
        (("ci",), None, RED, True, 2),
        ((), None, TITLE, True, 2),
        ((), None, RED, False, 1),
    ],
    ids=["green", "red", "runs", "absent", "no_longer_required", "absent_where_none_is_required", "red_where_none_is"],
)
async def test_check_of_the_pull_request_counts_on_each_members_head(
    store: Store, required: tuple[str, ...], first: CheckReport | None, second: CheckReport, passes: bool, left: int
) -> None:
    """P1, P5: the landing needs it there, waits for it, and one that is red costs its own pull request the place."""
    github = TrainGitHub(check_suites=())
    github.required = required
    github.reports_of = {"head-1": (first,) if first else (), "head-2": (second,)}
    state, run = await passed(store, github, "title")
    assert (await own_heads_pass(state, run, state.entries, merges=False) is not None) is passes
    await state.load()
    assert len(state.entries) == left


async def test_check_that_another_app_reports_as_well_is_not_taken_from_the_heads(store: Store) -> None:
    """P1: that App may test the tree, so the candidate is no proof; each keeps its place, and IMQ tests one by one."""
    github = TrainGitHub()
    github.required = ("ci", "title")
    github.reports_of = {"head-1": (TITLE,), "head-2": (TITLE, replace(TITLE, app_id=77))}
    state, run = await passed(store, github, "title")
    assert await own_heads_pass(state, run, state.entries, merges=False) is None
    await state.load()
    assert len(state.entries) == 2
    assert state.memory.off is not None
    assert state.memory.off.reason == "ci_unproven_on_candidates"


_TESTS = "on: [push, pull_request]\njobs: {ci: {steps: [{run: make test}]}}\n"
_JUDGE = "{uses: amannn/action-semantic-pull-request@v6}"


@pytest.mark.parametrize(
    ("steps", "names", "trigger"),
    [
        (_JUDGE, ("title",), CandidateTrigger.PUSH),
        (f"{{uses: actions/checkout@v5}}, {_JUDGE}", (), CandidateTrigger.PULL_REQUEST),
    ],
)
async def test_member_that_changes_the_title_check_has_its_own_version_judged(
    store: Store, steps: str, names: tuple[str, ...], trigger: CandidateTrigger
) -> None:
    """P1: with a checkout it may test the tree, so the candidate needs it, and a trigger that starts it."""
    title = f"on: pull_request_target\njobs: {{title: {{steps: [{steps}]}}}}\n"
    files = {".github/workflows/ci.yml": _TESTS, ".github/workflows/title.yml": title}
    answers: dict[str, Any] = {"workflow_files": files, "texts": {}}
    github = TrainGitHub(**answers)
    github.required = ("ci", "title")
    state, run = await passed(store, github)
    await state.remember(replace(state.memory, pull_request_checks_in_runs={}))
    learnt = await learn_of_workflows(state, run)
    assert learnt is not None
    assert (state.memory.pull_request_checks_in_runs, learnt.trigger) == ({"1": names}, trigger)
    assert github.named("workflow_files") == [("c2",)]
    await learn_of_workflows(state, run)
    assert len(github.named("workflow_files")) == 1
