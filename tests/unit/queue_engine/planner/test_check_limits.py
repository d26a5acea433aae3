"""The time of checks: it counts from their start, and a CI that starts nothing ejects no entry."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue, FactKind, ReadFact, SaveRun, Verdict, Wait
from queue_engine.planner.check_limits import check_deadline, check_limit
from tests.store.examples import changed
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, POLICY, entry, facts_with, judged_run, report, rules

LIMIT = POLICY.checks.fallback_timeout
END = NOW + LIMIT
QUEUED = replace(report("ci", CheckState.PENDING, run=1), conclusion="queued")
RUNNING = report("ci", CheckState.PENDING, run=1)
UPDATED = entry(status=CHECKING, head_sha="head-2", updated_from="head-1")


def judged(front: Entry, *reports: CheckReport, at: Any = END, **facts: Any) -> Verdict:
    """What is decided of a front whose one required check is `ci`."""
    known = {"rules": rules("ci"), "reports": reports, "workflow_runs": ()} | facts
    return judged_run(front, facts_with(**known), POLICY, at)


@pytest.mark.parametrize("word", ["queued", "waiting", "requested", "pending"])
def test_check_that_is_queued_is_waited_for_beyond_its_time_and_the_queue_says_so(word: str) -> None:
    """Its time has not begun; a look comes now and then."""
    action = judged(entry(status=CHECKING, polls=3), replace(QUEUED, conclusion=word))
    assert isinstance(action, Wait)
    assert (action.not_starting, action.until) == (("ci",), END + POLICY.check_poll.base)


def test_check_that_starts_late_has_its_whole_time_from_then() -> None:
    """Whatever GitHub says of its start: Actions may tell when it was queued."""
    front = entry(status=CHECKING, polls=5)
    found = judged(front, RUNNING, at=END + MINUTE)
    assert isinstance(found, Wait)
    assert (found.run.started_checks, found.not_starting) == (("ci",), ())
    assert check_deadline(found.run, POLICY) == END + MINUTE + LIMIT
    hanging = judged(replace(front, run=found.run), RUNNING, at=END + MINUTE + LIMIT)
    assert isinstance(hanging, Dequeue)
    assert hanging.reason is Reason.CHECKS_TIMED_OUT


@pytest.mark.parametrize(
    ("shown", "start"),
    [
        (replace(RUNNING, started_at=NOW + 5 * MINUTE), NOW + 5 * MINUTE),
        (replace(RUNNING, started_at=NOW - 5 * MINUTE), NOW),
        (replace(RUNNING, started_at=NOW + LIMIT), NOW + 15 * MINUTE),
        (replace(RUNNING, by_actions=True), NOW + 15 * MINUTE),
    ],
)
def test_start_that_the_first_poll_finds_is_the_reported_one_except_by_actions(shown: CheckReport, start: Any) -> None:
    """Never before the head was bound, never after the poll."""
    found = judged(entry(status=CHECKING), shown, at=NOW + 15 * MINUTE)
    assert isinstance(found, Wait)
    assert found.run.checks_started_at == start


@pytest.mark.parametrize(
    ("measured", "configured", "limit"),
    [(1800, None, 1800), (1800, 3600, 1800), (7200, 3600, 3600), (None, 3600, 3600), (None, None, LIMIT.seconds)],
)
def test_measured_time_counts_up_to_the_configured_one(
    measured: int | None, configured: int | None, limit: int
) -> None:
    """P5: three times the usual time of a check, and never more than the configuration allows."""
    front = changed(entry(status=CHECKING), check_limits=None if measured is None else {"ci": measured})
    timeout = None if configured is None else timedelta(seconds=configured)
    policy = replace(POLICY, checks=replace(POLICY.checks, timeout=timeout))
    assert check_limit(front.run, policy, ("ci",)) == timedelta(seconds=limit)


def test_check_that_never_starts_leaves_after_a_day_more() -> None:
    """P5: GitHub itself cancels what has waited for a machine for a day."""
    late = END + POLICY.stall_timeout
    assert isinstance(judged(entry(status=CHECKING), QUEUED, at=late - MINUTE), Wait)
    assert isinstance(judged(entry(status=CHECKING), QUEUED, at=late), Dequeue)


def test_check_that_is_absent_only_on_the_update_is_not_starting() -> None:
    """The queued head had it, so no path filter skips it."""
    assert judged(UPDATED) == ReadFact(FactKind.FORMER_REPORTS)
    known = changed(UPDATED, former_checks=("10:ci",))
    assert judged(UPDATED, former_reports=(report("ci"),)) == SaveRun(known.run)
    action = judged(known)
    assert isinstance(action, Wait)
    assert action.not_starting == ("ci",)


@pytest.mark.parametrize(
    "front",
    [
        changed(UPDATED, former_checks=()),
        changed(UPDATED, former_checks=("10:lint",)),
        changed(UPDATED, former_checks=("10:ci",), started_checks=("lint",)),
        entry(status=CHECKING),
    ],
)
def test_check_that_never_reported_or_while_others_start_times_out(front: Entry) -> None:
    """A path filter skips it, or it is broken: the queue does not wait for that."""
    action = judged(front)
    assert isinstance(action, Dequeue)
    assert action.reason is Reason.CHECKS_TIMED_OUT


def test_check_that_is_absent_while_the_ci_reports_elsewhere_gets_ten_minutes_more() -> None:
    """P5: a CI that is up and starts nothing here has missed this head."""
    known = changed(UPDATED, former_checks=("10:ci",))
    waiting = judged(known, at=END + MINUTE, ci_active_at=END)
    assert isinstance(waiting, Wait)
    assert waiting.until == END + POLICY.checks.first_report
    assert isinstance(judged(known, at=END + POLICY.checks.first_report, ci_active_at=END), Dequeue)
    assert isinstance(judged(known, QUEUED, at=END + timedelta(hours=3), ci_active_at=END), Wait)


def test_no_report_where_nothing_is_required_is_waited_for_if_the_queued_head_had_one() -> None:
    """A slow day ejects no entry after ten minutes."""
    soon = NOW + POLICY.checks.first_report
    assert judged(UPDATED, at=soon, rules=rules()) == ReadFact(FactKind.FORMER_REPORTS)
    known = changed(UPDATED, former_checks=("10:ci",))
    assert judged(UPDATED, at=soon, rules=rules(), former_reports=(report("ci"),)) == SaveRun(known.run)
    assert isinstance(judged(known, at=soon, rules=rules()), Wait)
    silent = judged(UPDATED, at=soon, rules=rules(), former_reports=())
    assert silent == SaveRun(changed(UPDATED, former_checks=()).run)
    assert judged(replace(UPDATED, run=silent.run), at=soon, rules=rules()) == Dequeue(Reason.NO_CHECKS)
