"""Failed checks that run again: what passes then lands in its place, what fails again is the change's own."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.domain.facts import CheckReport, CheckState, WorkflowRun
from queue_engine.domain.policy import RerunLimit
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Rerun, Save, Wait
from queue_engine.planner.check_limits import check_limit
from queue_engine.planner.check_outcome import allowed_reruns, failure_of, rerun_answered
from queue_engine.planner.decide import decide
from queue_engine.rules.check_progress import with_reports
from queue_engine.rules.checks import rerun_names, run_key
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    MINUTE,
    NOW,
    POLICY,
    entry,
    facts_with,
    pull,
    report,
    rules,
    workflow_run,
)
from tests.unit.queue_engine.planner.outcome_cases import a_job, failed
from tests.unit.queue_engine.planner.paths import landed
from tests.unit.queue_engine.planner.scripted_github import Refusal


def test_rerun_that_passes_lands_in_its_place_and_is_remembered_as_flaky() -> None:
    """One rerun, the status stays, no entry is ejected; jobs that depend on it get a moment to appear."""
    walk = a_job()
    assert isinstance(walk.go(), Wait)
    assert (walk.entry.status, walk.entry.run.pending_checks, walk.entry.run.rerun_at) == (CHECKING, ("ci",), None)
    assert walk.entry.run.next_poll_at == NOW + POLICY.check_poll.base
    walk.reported(CheckState.PASSED)
    assert isinstance(walk.go(), Wait)
    assert walk.due == NOW + POLICY.checks.settle
    assert landed(walk.wait())
    assert rerun_names(walk.entry.run) == ("ci",)
    assert walk.asked.count("rerun") == 1
    assert "base_reports" not in walk.asked


def test_rerun_that_fails_again_is_the_changes_own_fault_and_says_that_it_was_run_twice() -> None:
    """Once and no more; then the base is asked."""
    walk = a_job()
    walk.go()
    walk.reported(CheckState.FAILED)
    reports = walk.github.reports["head-2"]
    assert walk.go() == Dequeue(Reason.CHECKS_FAILED, None, reports)
    assert failure_of("head-1", walk.entry.run, reports, Facts()).reruns == 1
    assert walk.asked.count("rerun") == 1


def test_rerun_whose_old_failure_is_reported_again_is_waited_for() -> None:
    """A webhook of the first failure that comes late is not a second failure, whatever the clocks say."""
    walk = a_job()
    old = walk.github.reports["head-2"]
    walk.go()
    walk.github.reports["head-2"] = old
    walk.change_entry(next_poll_at=walk.now)
    assert isinstance(walk.go(), Wait)
    assert walk.asked.count("rerun") == 1


def test_rerun_of_a_new_head_is_counted_again() -> None:
    """What one head has had is no debt of the next."""
    walk = a_job()
    walk.go()
    walk.github.move_base("base-3")
    walk.change_entry(newer_tip="base-3")
    walk.go()
    walk.updated("head-3")
    walk.go()
    assert (walk.entry.run.reruns, walk.entry.run.rerun_checks) == (0, ())
    walk.reported(CheckState.FAILED)
    walk.go()
    assert walk.asked.count("rerun") == 2


@pytest.mark.parametrize("happened", [True, False])
def test_rerun_whose_answer_was_lost_is_searched_for_before_it_is_requested_again(happened: bool) -> None:
    """P2: a kill, or a lost connection, before or after GitHub took it up: one rerun, and no failure without it."""
    walk = a_job(reruns=[Refusal(lost=True, happened=happened)])
    assert walk.go() is None
    assert isinstance(walk.go(), Wait)
    assert (walk.entry.run.rerun_at, walk.entry.run.reruns) == (None, 1)
    assert walk.asked.count("rerun") == (1 if happened else 2)
    walk.reported(CheckState.FAILED)
    assert walk.left() is Reason.CHECKS_FAILED


def test_rerun_that_comes_too_early_is_asked_for_again_when_the_workflow_has_ended() -> None:
    """GitHub runs no workflow again that is not completed; jobs of it may not have begun, so none is shown."""
    too_early = Refusal("This workflow is already running")
    walk = a_job(reruns=[too_early] * 3)
    assert isinstance(walk.go(), Wait)
    for _ in range(3):
        assert walk.entry.run.rerun_at is not None
        assert isinstance(walk.wait(), Wait)
    assert (walk.entry.run.rerun_at, walk.asked.count("rerun")) == (None, 4)


def test_rerun_that_always_comes_too_early_ends_with_the_checks_time() -> None:
    """P5: a workflow that never ends holds up no queue for longer than checks may take."""
    walk = a_job(reruns=[Refusal("This workflow is already running")] * 99)
    action = walk.go()
    while isinstance(action, Wait):
        action = walk.wait()
    assert isinstance(action, Dequeue)
    assert action.reason is Reason.CHECKS_FAILED
    assert walk.now - NOW <= POLICY.checks.fallback_timeout + POLICY.ask_again.maximum
    assert walk.asked.count("rerun") < 25


def test_rerun_that_github_refuses_lets_the_failure_stand() -> None:
    """Too old, or no permission: not asked for twice, and no mention of a second run."""
    walk = a_job(reruns=[Refusal("Resource not accessible by integration")])
    assert walk.go() == Dequeue(Reason.CHECKS_FAILED, None, walk.github.reports["head-2"])
    assert walk.asked.count("rerun") == 1


def test_rerun_answered_with_a_refusal_forgets_only_what_was_refused() -> None:
    """Of two workflow runs one may be on its way."""
    asked = entry(status=CHECKING, rerun_checks=("1:ci", "2:lint"), rerun_at=NOW)
    after = rerun_answered(asked.run, (failed("lint", run=2),), "no", POLICY, NOW)
    assert (after.rerun_checks, after.rerun_at) == (("1:ci",), None)


def test_run_key_distinguishes_runs_of_one_check() -> None:
    """By GitHub's number of the run."""
    assert run_key(failed(run=1)) != run_key(failed(run=2))


@pytest.mark.parametrize("head", ["head-2", "head-1"])
def test_rerun_is_asked_only_of_a_run_that_is_proved_to_be_of_this_head(head: str) -> None:
    """A check's suite in GitHub's list of runs is the proof, and its head; nothing that the check itself says."""
    walk = a_job()
    walk.github.workflow = None
    walk.github.parked = (workflow_run(7, head),)
    walk.go()
    assert walk.asked.count("rerun") == (1 if head == "head-2" else 0)


ASKED = entry(status=CHECKING, status_since=NOW, rerun_checks=("1:ci",), rerun_at=NOW, reruns=1)
OLD = report("ci", CheckState.FAILED, run=1, workflow=7)


@pytest.mark.parametrize("newer", [(), (report("ci", CheckState.FAILED, run=2, workflow=7),)])
def test_rerun_in_doubt_has_happened_when_the_old_run_is_gone(newer: tuple[CheckReport, ...]) -> None:
    """Whatever else has failed: that is judged by itself."""
    assert decide(ASKED, facts_with(rules=rules("ci"), reports=newer), POLICY, NOW) == Save(
        changed(ASKED, rerun_at=None, timings=with_reports(NOT_BEGUN, newer).timings)
    )


@pytest.mark.parametrize(
    ("after", "runs", "action"),
    [
        (0 * MINUTE, None, ReadFact(FactKind.WORKFLOW_RUNS)),
        (0 * MINUTE, (workflow_run(7),), Rerun(ASKED.run, (replace(OLD, actions_run=7),))),
        (0 * MINUTE, (workflow_run(7, "head-0"),), None),
        (check_limit(ASKED.run, POLICY), (workflow_run(7),), None),
    ],
)
def test_rerun_in_doubt_is_asked_for_again_only_of_a_proved_run_and_in_time(
    after: timedelta, runs: tuple[WorkflowRun, ...] | None, action: Action | None
) -> None:
    """P5: else the failure counts as it stands, and is named."""
    blamed = Dequeue(Reason.CHECKS_FAILED, None, (OLD,))
    facts = facts_with(rules=rules("ci"), reports=(OLD,), workflow_runs=runs, pull=pull())
    assert decide(ASKED, facts, POLICY, NOW + after) == (action or blamed)


@pytest.mark.parametrize(("names", "until", "more"), [("ci", 0, 2), ("ci other", 0, 0), ("ci", -1, 0)])
def test_more_reruns_are_for_checks_that_are_all_listed_as_flaky(names: str, until: int, more: int) -> None:
    """Another failure beside it may be the change's, and a listing ends with its day."""
    listed = RerunLimit("ci", (NOW + timedelta(days=until)).date())
    policy = replace(POLICY, checks=replace(POLICY.checks, flaky=(listed,)))
    reports = [report(name, CheckState.FAILED) for name in names.split()]
    assert allowed_reruns(reports, policy, NOW) == POLICY.checks.reruns + more
