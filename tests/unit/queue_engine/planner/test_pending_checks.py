"""Checks that have not reported: what is looked for where nothing is required, and runs that await approval."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckReport, CheckState, CheckSuite, RequiredCheck
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, FactKind, ReadFact, Ready, SaveRun, Verdict, Wait
from queue_engine.planner.pending_checks import not_repeated
from queue_engine.rules.checks import judge
from tests.store.examples import changed
from tests.unit.queue_engine.examples import (
    CHECKING,
    HOUR,
    MINUTE,
    NOW,
    POLICY,
    entry,
    facts_with,
    judged_run,
    report,
    rules,
    workflow_run,
)

FAST, SLOW = report("fast", completed_at=NOW - HOUR), report("slow", app_id=11, completed_at=NOW - HOUR)
SKIPPED = replace(SLOW, conclusion="skipped")
LATER = NOW + POLICY.checks.fallback_timeout


def updated(**changes: Any) -> Entry:
    """A front on IMQ's own update of `head-1`."""
    return entry(status=CHECKING, head_sha="head-2", updated_from="head-1", **changes)


def judged(front: Entry, *reports: CheckReport, at: Any = NOW, **facts: Any) -> Verdict:
    """What is decided where nothing is required."""
    return judged_run(front, facts_with(**{"rules": rules(), "reports": reports, "suites": ()} | facts), POLICY, at)


def suite(**changes: Any) -> CheckSuite:
    """A suite of GitHub Actions that is under way and has no runs yet."""
    return replace(CheckSuite("GitHub Actions", True, "queued", None, 0), **changes)


def test_green_update_where_nothing_is_required_asks_what_reported_before() -> None:
    """Once: what is known then is kept with the entry."""
    assert judged(updated(), FAST) == ReadFact(FactKind.FORMER_REPORTS)
    asked = judged(updated(), FAST, former_reports=(FAST, SLOW))
    assert asked == SaveRun(updated(former_checks=("10:fast", "11:slow")).run)


def test_green_head_that_was_queued_so_asks_for_no_former_one() -> None:
    """Nothing was updated, so nothing has to come again; suites under way are waited for all the same."""
    assert judged(entry(status=CHECKING), FAST, suites=None) == ReadFact(FactKind.SUITES)


def test_first_report_on_an_update_where_nothing_is_required_starts_a_wait_for_all_that_reported_before() -> None:
    """P7: checks that end minutes after each other cost one look; one that is ignored is not waited for."""
    reported = updated(completed_checks=("fast",), next_poll_at=NOW)
    facts = facts_with(rules=rules())
    assert judged_run(reported, facts, POLICY, NOW) == ReadFact(FactKind.FORMER_REPORTS)
    known = replace(facts, former_reports=(FAST, SLOW))
    saved = judged_run(reported, known, POLICY, NOW)
    assert isinstance(saved, SaveRun)
    assert (saved.run.former_checks, saved.run.pending_checks) == (("10:fast", "11:slow"), ("fast", "slow"))
    waiting = judged_run(replace(reported, run=saved.run), known, POLICY, NOW)
    assert isinstance(waiting, Wait)
    assert waiting.until >= NOW + MINUTE
    all_reported = changed(replace(reported, run=saved.run), completed_checks=("fast", "slow"), next_poll_at=NOW)
    assert judged_run(all_reported, known, POLICY, NOW + POLICY.checks.settle) == ReadFact(FactKind.CHECKS)
    ignoring = judged_run(reported, known, replace(POLICY, checks=replace(POLICY.checks, ignored=("slow",))), NOW)
    assert ignoring == SaveRun(changed(reported, former_checks=("10:fast", "11:slow")).run)


def test_new_head_where_nothing_is_required_waits_for_workflows_that_start_late() -> None:
    """P1: a workflow of GitHub Actions may start half a minute after a fast App has passed."""
    fresh = replace(FAST, started_at=NOW, completed_at=NOW)
    soon, later = NOW + POLICY.checks.settle, NOW + POLICY.later_workflows
    waiting = judged(entry(status=CHECKING), fresh, at=soon)
    assert isinstance(waiting, Wait)
    assert waiting.until == later
    assert isinstance(judged(entry(status=CHECKING), fresh, at=later), Ready)
    old = replace(fresh, started_at=NOW - HOUR)
    assert isinstance(judged(entry(status=CHECKING), fresh, old, at=soon), Ready)


def test_former_checks_of_a_new_queued_head_are_read_again_after_a_minute() -> None:
    """P1: the label was set a second after the push, before the slow workflow had started."""
    front, fresh = updated(), replace(FAST, started_at=NOW, completed_at=NOW)
    later = NOW + POLICY.later_workflows
    waiting = judged(front, fresh, at=NOW + POLICY.checks.settle, former_reports=(fresh,))
    assert isinstance(waiting, Wait)
    assert (waiting.until, waiting.run.former_checks) == (later, None)
    known = judged(front, fresh, at=later, former_reports=(fresh, SLOW))
    assert known == SaveRun(updated(former_checks=("10:fast", "11:slow")).run)


@pytest.mark.parametrize(
    ("reports", "waits"),
    [
        ((FAST,), ("slow",)),
        ((FAST, SLOW), None),
        ((FAST, SKIPPED), None),
        ((FAST, replace(SLOW, app_id=12)), ("slow",)),
        ((FAST, replace(SLOW, state=CheckState.PENDING)), ("slow",)),
    ],
)
def test_update_where_nothing_is_required_waits_for_every_check_that_reported_before(
    reports: tuple[CheckReport, ...], waits: tuple[str, ...] | None
) -> None:
    """P1: the fast App is green after a second, the slow CI appears half a minute later. Skipped is reported, too."""
    action = judged(updated(former_checks=("10:fast", "11:slow")), *reports, workflow_runs=())
    if waits is None:
        assert isinstance(action, Ready)
    else:
        assert isinstance(action, Wait)
        assert action.run.pending_checks == waits


def test_check_that_does_not_report_again_is_named_after_its_time() -> None:
    """P5: bounded by the limit of checks, and the explanation names it."""
    front = updated(former_checks=("10:fast", "11:slow"), polls=3)
    early = judged(front, FAST, at=LATER - MINUTE)
    assert isinstance(early, Wait)
    assert early.until == LATER
    assert judged(front, FAST, at=LATER, workflow_runs=()) == Dequeue(Reason.CHECKS_NOT_REPEATED, detail="slow")


def test_check_that_the_configuration_ignores_need_not_report_again() -> None:
    """The way out for a check that a comment once started."""
    policy = replace(POLICY, checks=replace(POLICY.checks, ignored=("slow",)))
    facts = facts_with(rules=rules(), reports=(FAST,), suites=())
    assert isinstance(judged_run(updated(former_checks=("11:slow",)), facts, policy, NOW), Ready)


@pytest.mark.parametrize(
    ("each", "waits"),
    [
        (suite(), True),
        (suite(status="in_progress", runs=2), True),
        (suite(by_actions=False, app="builder", runs=1), True),
        (suite(by_actions=False, app="installed for nothing"), False),
        (suite(status="completed", conclusion="success", runs=2), False),
    ],
)
def test_suite_under_way_is_waited_for_where_nothing_is_required(each: CheckSuite, waits: bool) -> None:
    """One of an App that never reports stays queued for ever (oca-github-bot #141): it counts for nothing."""
    action = judged(entry(status=CHECKING), FAST, suites=(each,))
    assert isinstance(action, Wait if waits else Ready)
    soon = judged(entry(status=CHECKING, polls=9), FAST, suites=(each,), at=LATER - timedelta(seconds=1))
    assert not isinstance(soon, Wait) or soon.until == LATER
    late = judged(entry(status=CHECKING), FAST, suites=(each,), at=LATER)
    assert isinstance(late, Dequeue if waits else Ready)


PARKED = workflow_run(7, "head-1", status="completed", conclusion="action_required")


@pytest.mark.parametrize(
    "parked", [PARKED, replace(PARKED, status="waiting", conclusion=None), replace(PARKED, status="action_required")]
)
@pytest.mark.parametrize("required", [("ci",), ()])
def test_runs_that_await_approval_are_reported_at_once(required: tuple[str, ...], parked: Any) -> None:
    """P5: such runs delay no other entry; the link to approve them is among the checks that IMQ names."""
    facts = facts_with(rules=rules(*required), reports=())
    assert judged_run(entry(status=CHECKING), facts, POLICY, NOW) == ReadFact(FactKind.WORKFLOW_RUNS)
    action = judged_run(entry(status=CHECKING), replace(facts, workflow_runs=(parked,)), POLICY, NOW)
    assert isinstance(action, Dequeue)
    assert (action.reason, action.detail) == (Reason.WORKFLOWS_UNAPPROVED, "ci")
    assert [check.url for check in action.checks] == [parked.url]


def test_green_head_with_runs_that_await_approval_does_not_land_where_nothing_is_required() -> None:
    """The suite of such a run is completed, and has reported nothing."""
    waiting = suite(status="completed", conclusion="action_required")
    assert judged(entry(status=CHECKING), FAST, suites=(waiting,)) == ReadFact(FactKind.WORKFLOW_RUNS)
    action = judged(entry(status=CHECKING), FAST, suites=(waiting,), workflow_runs=(PARKED,))
    assert isinstance(action, Dequeue)
    assert action.reason is Reason.WORKFLOWS_UNAPPROVED


@pytest.mark.parametrize(
    ("reports", "runs"),
    [
        ((report("other", CheckState.PENDING, workflow=8, run=1),), (PARKED,)),
        ((), (PARKED, workflow_run(8))),
        ((), (workflow_run(8, status="queued"),)),
        ((replace(report("lint", workflow=7, run=1)),), (PARKED,)),
    ],
)
def test_missing_check_that_another_run_may_report_is_waited_for(reports: Any, runs: Any) -> None:
    """Jobs appear when those that they need have ended; a run that has jobs was approved."""
    facts = facts_with(rules=rules("ci", "other"), reports=reports, workflow_runs=runs)
    assert isinstance(judged_run(entry(status=CHECKING), facts, POLICY, NOW), Wait)


def test_slow_poll_asks_for_no_workflow_runs() -> None:
    """P7: long CI costs one request a poll; the first poll and the last show runs that await approval."""
    facts = facts_with(rules=rules("ci"), reports=())
    assert isinstance(judged_run(entry(status=CHECKING, polls=1), facts, POLICY, NOW), Wait)
    assert judged_run(entry(status=CHECKING, polls=4), facts, POLICY, LATER) == ReadFact(FactKind.WORKFLOW_RUNS)


@pytest.mark.parametrize("queue_only", [True, False])
def test_check_that_runs_in_the_queue_alone_is_waited_for_until_its_time_limit(queue_only: bool) -> None:
    """Its label may start it late; any other check that reported before the update has to report again by then."""
    e2e = RequiredCheck("e2e", None)
    policy = replace(POLICY, checks=replace(POLICY.checks, queue_only=frozenset({e2e} if queue_only else ())))
    left = not_repeated(judge((), (FAST,), (), {e2e}), policy)
    assert (left and left.reason) is (None if queue_only else Reason.CHECKS_NOT_REPEATED)
