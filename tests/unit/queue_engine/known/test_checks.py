"""Reports of checks compared with those that webhooks reported as completed."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.domain.known_facts import SETTLED, CheckResult, CommitStatus, Known
from queue_engine.known.pulls import outdated_reports, statuses_matter
from tests.unit.queue_engine.examples import MINUTE, NOW, report

SECOND = timedelta(seconds=1)
BOUND = (RequiredCheck("ci", 10),)


def ended(conclusion: str = "success", run: int = 5, **changes: Any) -> Known:
    """A run of `ci` that ended at NOW."""
    reported = CheckResult(id=run, name="ci", app_id=10, conclusion=conclusion, started_at=NOW, completed_at=NOW)
    return Known(reported.model_copy(update=changes), NOW)


def status(state: str = "success") -> Known:
    """A status `ci` that was set at NOW."""
    return Known(CommitStatus(name="ci", state=state, at=NOW), NOW)


def set_status(state: CheckState = CheckState.PASSED, **changes: Any) -> CheckReport:
    """The same as it is read."""
    return replace(report(state=state, app_id=None), **changes)


def test_reports_without_a_run_that_is_known_to_have_ended_are_outdated() -> None:
    """The run itself as it ended, or a newer one of its App and name in its place."""
    for reports, believed in [
        ([], False),
        ([report(run=5)], True),
        ([report(run=5, state=CheckState.PENDING)], False),
        ([report(run=4)], False),
        ([report(run=6, state=CheckState.PENDING)], True),
        ([report("other", run=6)], False),
        ([report(run=6, app_id=11)], False),
        ([replace(report(run=5, state=CheckState.PENDING), started_at=NOW + SECOND)], True),
        ([report(run=5, state=CheckState.FAILED)], False),
        ([report(run=5, state=CheckState.FAILED, completed_at=NOW - SECOND)], False),
        ([report(run=5, state=CheckState.FAILED, completed_at=NOW + SECOND)], True),
        ([report(run=6), report(run=5, state=CheckState.PENDING)], False),
    ]:
        assert (outdated_reports(reports, BOUND, [ended()], NOW) is None) is believed, (reports, believed)


def test_run_under_way_that_is_known_to_have_ended_is_believed_after_a_minute() -> None:
    """Its App may have begun it again, which no webhook reports."""
    pending = [report(run=5, state=CheckState.PENDING)]
    assert outdated_reports(pending, BOUND, [ended()], NOW + MINUTE) is None


@pytest.mark.parametrize(("begun", "believed"), [(NOW, False), (NOW + SECOND, True)])
def test_run_begun_again_after_an_end_without_a_time_is_believed(begun: datetime, believed: bool) -> None:
    """Then the time at which it had begun before distinguishes the two."""
    again = replace(report(run=5, state=CheckState.PENDING), started_at=begun)
    assert (outdated_reports([again], BOUND, [ended(completed_at=None)], NOW) is None) is believed


def test_run_that_ended_twice_in_one_second_is_doubted_for_some_seconds() -> None:
    """GitHub does not say which of the two ends came later."""
    failed = [report(run=5, state=CheckState.FAILED)]
    assert outdated_reports(failed, BOUND, [ended()], NOW + SETTLED) is None


@pytest.mark.parametrize(
    ("reports", "believed"),
    [
        ([], False),
        ([set_status()], True),
        ([set_status(CheckState.FAILED)], False),
        ([set_status(CheckState.FAILED, completed_at=NOW - SECOND)], False),
        ([set_status(CheckState.FAILED, completed_at=NOW + SECOND)], True),
        ([set_status(CheckState.PENDING, completed_at=None, started_at=NOW + SECOND)], True),
        ([set_status(CheckState.PENDING, completed_at=None, started_at=NOW - SECOND)], False),
        ([report(run=9)], False),
    ],
)
def test_reports_without_a_status_that_is_known_to_be_set_are_outdated(
    reports: list[CheckReport], believed: bool
) -> None:
    """Or one that was set later in its place."""
    assert (outdated_reports(reports, (), [status()], NOW) is None) is believed


def test_status_of_the_same_second_is_believed_after_some_seconds() -> None:
    """Two statuses of one name in one second have no order."""
    assert outdated_reports([set_status(CheckState.FAILED)], (), [status()], NOW + SETTLED) is None


def test_statuses_that_were_not_asked_for_are_not_missed() -> None:
    """No status matters for a check that is bound to an App with a run of it, or whose run is pending (P7)."""
    (check,) = BOUND
    ended, pending = [(check.name, check.app_id, False)], [(check.name, check.app_id, True)]
    assert not statuses_matter(BOUND, ended)
    assert statuses_matter(BOUND, [])
    unbound = (RequiredCheck(check.name, None),)
    assert statuses_matter(unbound, ended)
    assert not statuses_matter(unbound, pending)
    assert statuses_matter((*unbound, RequiredCheck("other", None)), pending)
    assert statuses_matter((), pending)
    assert outdated_reports([report(run=5)], BOUND, [status()], NOW) is None
