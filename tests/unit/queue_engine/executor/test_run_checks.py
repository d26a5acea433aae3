"""What the checks of a candidate say about its members, and which outcomes say nothing."""

from dataclasses import replace
from typing import Any

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.facts import CheckReport, CheckState, Commit
from queue_engine.domain.run import CandidateTrigger, Run, RunMember, RunState
from queue_engine.executor.run_checks import MOST_CANCELLED, absent
from queue_engine.executor.run_checks import test as follow_checks
from queue_engine.executor.run_store import TrainState
from queue_engine.executor.triggers import key_of
from queue_engine.planner.actions import Facts
from queue_engine.store import Store
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, report, rules
from tests.unit.queue_engine.executor.train_states import TrainGitHub, a_state

CANCELLED = report("ci", CheckState.FAILED, conclusion="cancelled")
FAILED = report("lint", CheckState.FAILED)
SKIPPED = report("ci", conclusion="skipped")
PASSED = report("ci")


@pytest.fixture
def store(sqlite_database: Database) -> Store:
    return Store(sqlite_database)


async def under_test(store: Store, github: TrainGitHub, **run: Any) -> tuple[TrainState, Run]:
    """The state of a queue of two, whose candidate is tested."""
    both = [RunMember(each, "", f"head-{each}", commit=f"c{each}", tree=f"t{each}") for each in (1, 2)]
    given: dict[str, Any] = {"published_at": NOW, **run}
    return await a_state(store, github, (1, 2), members=both, candidate="c2", state=RunState.TESTING, **given)


async def judged(state: TrainState) -> None:
    """Judge the checks until their run waits, or has ended."""
    for _ in range(5):
        if not state.runs or state.runs[0].state is not RunState.TESTING:
            return
        if await follow_checks(state, state.runs[0]) is not None:
            return
        await state.load()


@pytest.mark.parametrize(
    ("reports", "before", "is_evidence"),
    [
        ((CANCELLED,), 0, False),
        ((CANCELLED,), MOST_CANCELLED - 1, False),
        ((CANCELLED,), MOST_CANCELLED, True),
        ((CANCELLED, FAILED), 0, True),
    ],
)
async def test_cancelled_checks_are_no_evidence_a_few_times(
    store: Store, reports: tuple[CheckReport, ...], before: int, is_evidence: bool
) -> None:
    """A person may cancel a run; P5: but not keep a queue busy for ever, and a real failure beside it counts."""
    github = TrainGitHub()
    github.required = ("ci", "lint")
    github.reports = reports if len(reports) > 1 else (*reports, report("lint"))
    github.base_reports = (PASSED, report("lint"))
    state, run = await under_test(store, github)
    key = await key_of(state, run)
    await state.remember(replace(state.memory, cancelled={key: before} if before else {}))
    await judged(state)
    assert state.runs == ()
    assert bool(state.memory.trains.failures) is is_evidence
    assert state.memory.results == ({key: False} if is_evidence else {})
    assert state.memory.cancelled.get(key, 0) == (before if is_evidence else before + 1)


@pytest.mark.parametrize(
    ("first", "second", "passes"),
    [
        ((SKIPPED,), (SKIPPED,), True),
        ((SKIPPED,), (PASSED,), False),
        ((PASSED,), (SKIPPED,), False),
        ((SKIPPED,), (), False),
    ],
    ids=["skipped_on_both", "ran_on_the_second", "ran_on_the_first", "absent_on_one"],
)
async def test_check_skipped_on_a_candidate_counts_only_if_it_was_on_every_head(
    store: Store, first: tuple[CheckReport, ...], second: tuple[CheckReport, ...], passes: bool
) -> None:
    """P1: otherwise the candidate is not tested, and another trigger has to show that it tests."""
    github = TrainGitHub()
    github.reports = (SKIPPED,)
    github.reports_of = {"head-1": first, "head-2": second}
    state, _ = await under_test(store, github)
    await judged(state)
    assert [each.state for each in state.runs] == ([RunState.PASSED] if passes else [])
    assert state.memory.silent == (() if passes else (CandidateTrigger.PUSH,))
    assert state.memory.trains.failures == ()


@pytest.mark.parametrize("has_started", [True, False])
async def test_check_that_never_ends_counts_only_if_it_began(store: Store, has_started: bool) -> None:
    """P5: where none began, the trigger does not start it, which says nothing of the members."""
    github = TrainGitHub(commit=Commit("c2", "t2", ("c1", "head-2")), reports_elsewhere=())
    github.reports = (report("ci", CheckState.PENDING),) if has_started else ()
    github.reports_of = {"head-1": (PASSED,), "head-2": (PASSED,)}
    long_ago = NOW - 100 * HOUR
    began = ("ci",) if has_started else ()
    since = {"started_at": long_ago, "published_at": long_ago, "checks_since": long_ago}
    state, _ = await under_test(store, github, started_checks=began, **since)
    if not has_started:
        # It was tried once more, although the trigger has worked before.
        await state.remember(replace(state.memory, cancelled={await key_of(state, state.runs[0]): 1}))
    await judged(state)
    assert (len(state.memory.trains.failures), state.memory.silent) == (
        (1, ()) if has_started else (0, (CandidateTrigger.PUSH,))
    )


def test_required_check_is_not_missed_while_a_job_runs_on_which_it_may_depend() -> None:
    """A job with `needs` reports nothing before the other job has ended."""
    running = report("lint", CheckState.PENDING, workflow=5)
    facts = Facts(rules=rules("ci", "lint"), reports=(running,))
    assert absent(facts, POLICY) == ()
    assert absent(replace(facts, reports=(report("lint", workflow=5),)), POLICY) == ("ci",)
    assert absent(replace(facts, reports=(report("lint", CheckState.PENDING),)), POLICY) == ("ci",)


OWN, OTHER = report("lint"), report("ci", CheckState.FAILED)


@pytest.mark.parametrize(
    ("on_head", "green", "reason"),
    [
        ((OWN,), (), "check_fails_on_candidates"),
        ((OWN,), ("10:lint",), None),
        ((replace(OWN, state=CheckState.FAILED),), (), None),
        ((replace(OWN, state=CheckState.PENDING),), (), "check_fails_on_candidates"),
        ((), (), None),
    ],
    ids=["green_on_its_head", "passed_on_a_candidate_before", "red_on_its_head", "runs_on_its_head", "absent"],
)
async def test_check_that_may_judge_the_pull_request_is_no_evidence(
    store: Store, on_head: tuple[CheckReport, ...], green: tuple[str, ...], reason: str | None
) -> None:
    """P5: not red on the member's own head, red on a candidate of it alone, and never green on any."""
    github = TrainGitHub()
    github.required = ("ci", "lint")
    github.reports = (report("ci"), FAILED)
    github.base_reports = (report("ci"), report("lint"))
    github.reports_of = {"head-1": on_head}
    alone = [RunMember(1, "", "head-1", commit="c2", tree="t1")]
    run: dict[str, Any] = {"members": alone, "candidate": "c2", "state": RunState.TESTING}
    state, _ = await a_state(store, github, (1,), published_at=NOW, **run)
    await state.remember(replace(state.memory, green=green))
    for _ in range(3):
        await judged(state)
    assert state.runs == ()
    assert (state.memory.off.reason if state.memory.off else None) == reason
    assert len(state.memory.trains.failures) == (0 if reason else 1)
    if reason:
        assert state.memory.off is not None
        assert (state.memory.off.detail, state.memory.off.suspect) == ("lint", 1)


async def test_failure_names_only_the_checks_that_prove_it(store: Store) -> None:
    """P6: beside a real failure, a check that may judge the pull request is not named."""
    github = TrainGitHub()
    github.required = ("ci", "lint")
    github.reports = (OTHER, FAILED)
    github.base_reports = (report("ci"), report("lint"))
    github.reports_of = {"head-1": (report("ci"), OWN)}
    alone = [RunMember(1, "", "head-1", commit="c2", tree="t1")]
    run: dict[str, Any] = {"members": alone, "candidate": "c2", "state": RunState.TESTING}
    state, _ = await a_state(store, github, (1,), published_at=NOW, **run)
    await state.remember(replace(state.memory, green=("10:ci",)))
    for _ in range(3):
        await judged(state)
    assert [each["name"] for failed in state.memory.failed for each in failed.checks] == ["ci"]
