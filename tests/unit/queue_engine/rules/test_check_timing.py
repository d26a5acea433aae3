"""When the checks of a candidate ran, how long each took, and which addresses are links."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.run import NOT_BEGUN, CheckTiming
from queue_engine.rules.check_progress import (
    MOST_CHECKS,
    check_data,
    rerun_seconds,
    safe_link,
    usual_seconds,
    with_reports,
    without_reruns,
)
from tests.unit.queue_engine.examples import CHECKING, HOUR, MINUTE, NOW, SECOND, entry, report

PENDING, FAILED = CheckState.PENDING, CheckState.FAILED


def test_address_that_is_none_of_the_web_is_no_link() -> None:
    """Everyone with write access sets a status with an address."""
    for address in [
        "javascript:alert(1)",
        "JavaScript:alert(1)",
        " https://ci.example/1",
        "https://ci.example/a b",
        "https://ci.example/\n1",
        "https://user:password@ci.example/1",  # pragma: allowlist secret
        "https://ci.example\\@evil.example/",
        "//ci.example/1",
        "/runs/1",
        "data:text/html,1",
        "ftp://ci.example/1",
        "https://ci.example:port/",
        "https://[ci/",
        "https://",
        "https://ci.example/" + "a" * 1000,
        "https://cí.example/",
        "",
        None,
    ]:
        assert safe_link(address) is None, address


@pytest.mark.parametrize("address", ["https://ci.example/1?job=2#step:3:4", "http://localhost:8080/job/1"])
def test_address_of_the_web_is_a_link(address: str) -> None:
    """As GitHub gave it."""
    assert safe_link(address) == address


def test_reports_of_a_read_say_when_each_check_ran() -> None:
    """A queued check has not started; of a status that ended only the end is known."""
    ran = replace(report("ran", run=1), started_at=NOW - MINUTE)
    runs = replace(report("runs", PENDING, run=2), started_at=NOW - SECOND)
    queued = replace(report("queued", PENDING, run=3, conclusion="queued"), started_at=NOW)
    status = replace(report("status"), url="javascript:alert(1)")
    assert with_reports(NOT_BEGUN, (ran, runs, queued, status)).timings == (
        CheckTiming("queued", "https://ci.example/queued"),
        CheckTiming("ran", "https://ci.example/ran", NOW - MINUTE, NOW, passed=True),
        CheckTiming("runs", "https://ci.example/runs", NOW - SECOND),
        CheckTiming("status", None, None, NOW, passed=True),
    )


def test_status_keeps_the_start_that_an_earlier_read_showed() -> None:
    """GitHub's newest report of a status replaces the one that said that it began."""
    began = with_reports(NOT_BEGUN, [replace(report("ci", PENDING), started_at=NOW - MINUTE)])
    (ended,) = with_reports(began, [report("ci")]).timings
    assert (ended.started, ended.ended) == (NOW - MINUTE, NOW)
    (again,) = with_reports(replace(began, timings=(ended,)), [report("ci", completed_at=NOW + HOUR)]).timings
    assert (again.started, again.ended) == (None, NOW + HOUR), "another report of a status that had ended"


def test_check_that_waits_for_a_runner_again_has_no_start() -> None:
    """Somebody ran it again on GitHub: the former run's start says nothing about this one."""
    before = with_reports(NOT_BEGUN, [report("ci", run=1)])
    queued = replace(report("ci", PENDING, run=2, conclusion="queued"), started_at=None)
    assert with_reports(before, [queued]).timings == (CheckTiming("ci", "https://ci.example/ci"),)


@given(st.permutations([report("ci", run=1), report("ci", FAILED, run=2), report("ci", PENDING, run=3)]))
def test_of_several_reports_by_one_name_the_one_that_runs_counts(reports: list[CheckReport]) -> None:
    """In any order of the list; then a failed one."""
    (timing,) = with_reports(NOT_BEGUN, reports).timings
    assert timing.ended is None
    (timing,) = with_reports(NOT_BEGUN, [each for each in reports if each.state is not PENDING]).timings
    assert timing.passed is False


def test_number_of_recorded_checks_has_a_limit() -> None:
    """A matrix of a thousand jobs makes no row of a megabyte."""
    run = with_reports(NOT_BEGUN, [report(f"job {number:04}") for number in range(MOST_CHECKS * 2)])
    assert len(run.timings) == MOST_CHECKS


def test_check_that_runs_again_counts_once_in_each_event() -> None:
    """The first run in that of the rerun, the second in the event that ends the test."""
    failed = replace(report("ci", FAILED, run=1), started_at=NOW - MINUTE)
    before = with_reports(NOT_BEGUN, [failed, report("lint", run=2)])
    asked = replace(before, rerun_checks=("1:ci",))
    assert with_reports(asked, [failed]).timings == before.timings
    after = without_reruns(asked)
    assert rerun_seconds(before, after) == {"ci": 60}
    assert with_reports(after, [failed]).timings == after.timings, "the old run is gone"
    assert [timing.name for timing in after.timings] == ["lint"]
    assert rerun_seconds(asked, asked) == {}


@pytest.mark.parametrize(
    ("changes", "passed", "seconds"),
    [
        # IMQ's own update: all its checks began with the status.
        ({"head_sha": "head-2"}, False, {"ran": 60, "runs": 1, "status": 3600}),
        ({"head_sha": "head-2"}, True, {"ran": 60, "status": 3600}),
        # The head that was queued may have been checked long before.
        ({}, False, {"ran": 60, "runs": 1}),
    ],
)
def test_event_that_ends_a_test_has_the_seconds_of_each_check(
    changes: dict[str, Any], passed: bool, seconds: dict[str, float]
) -> None:
    """What still runs counts until now, unless the checks that matter have passed."""
    timings = (
        CheckTiming("ran", None, NOW - 2 * MINUTE, NOW - MINUTE, passed=True),
        CheckTiming("runs", None, NOW - SECOND),
        CheckTiming("skewed", None, NOW, NOW - SECOND, passed=True),
        CheckTiming("status", None, None, NOW, passed=True),
    )
    tested = entry(status=CHECKING, status_since=NOW - HOUR, timings=timings, **changes)
    data = check_data(tested, NOW, passed=passed)
    ended = {"ran": 60, "skewed": 1, "status": 0}
    assert data == {"tested": tested.head_sha, "check_seconds": {**seconds, "skewed": 0}, "check_ended": ended}


def test_event_without_a_known_check_says_nothing_of_checks() -> None:
    """Its readers distinguish it from a test without checks."""
    assert check_data(entry(), NOW) == {}


def test_usual_time_of_a_check_is_the_median() -> None:
    """One slow run changes nothing; events without times say nothing."""
    events: list[dict[str, Any]] = [
        *({"check_seconds": {"ci": seconds}} for seconds in (60, 61, 4000)),
        {"check_seconds": {"lint": 5}},
        {},
    ]
    assert usual_seconds(events) == {"ci": 61, "lint": 5}
