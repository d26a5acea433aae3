"""Required checks: which pass, which fail, and which are awaited."""

from dataclasses import replace

import pytest

from queue_engine.domain.facts import CheckState, CheckSuite, RequiredCheck, is_own_check, unreported_check
from queue_engine.domain.run import Run
from queue_engine.rules.checks import (
    former_checks,
    former_names,
    judge,
    not_run,
    reports_since,
    required_checks,
    requires_own_check,
)
from tests.unit.queue_engine.examples import NOW, POLICY, SECOND, report, rules

PENDING, PASSED, FAILED = CheckState.PENDING, CheckState.PASSED, CheckState.FAILED
CI = RequiredCheck("ci", None)
CI_OF_10 = RequiredCheck("ci", 10)


def test_required_check_bound_to_an_app_counts_from_that_app_only() -> None:
    """A check run of the same name by another App neither passes nor fails a bound check."""
    assert judge([CI_OF_10], [report("ci", PASSED, app_id=11)]).state is PENDING
    assert judge([CI_OF_10], [report("ci", FAILED, app_id=11)]).state is PENDING
    assert judge([CI_OF_10], [report("ci", FAILED, app_id=11), report("ci", PASSED, app_id=10)]).state is PASSED


def test_required_check_bound_to_no_app_fails_with_any_of_its_name() -> None:
    """An unbound check is required of every App that reports its name."""
    assert judge([CI], [report("ci", PASSED, app_id=10), report("ci", FAILED, app_id=11)]).state is FAILED
    assert judge([CI], [report("ci", PASSED, app_id=10), report("ci", PENDING, app_id=11)]).state is PENDING


@pytest.mark.parametrize(("required", "setter"), [(CI, None), (CI, 10), (CI_OF_10, 10)])
def test_check_run_and_status_of_one_name_are_both_required(required: RequiredCheck, setter: int | None) -> None:
    """A passing run does not hide a status of the same name, nor the other way round (GitHub's rule)."""
    run, status = report("ci", PASSED, app_id=10, run=1), report("ci", PASSED, app_id=setter)
    assert judge([required], [run, status]).state is PASSED
    assert judge([required], [run, report("ci", PENDING, app_id=setter)]).state is PENDING
    assert judge([required], [run, report("ci", FAILED, app_id=setter)]).state is FAILED
    assert judge([required], [report("ci", FAILED, app_id=10, run=1), status]).state is FAILED


@pytest.mark.parametrize("state", CheckState)
def test_status_of_any_person_proves_nothing_for_a_check_that_is_bound_to_an_app(state: CheckState) -> None:
    """Anyone who may push may set a status of any name: it neither passes nor fails what an App has to report."""
    anybodys = report("ci", state, app_id=None)
    verdict = judge([CI_OF_10], [anybodys])
    assert (verdict.state, verdict.pending_names) == (PENDING, ("ci",))
    assert judge([CI_OF_10], [anybodys, report("ci", PASSED, app_id=10)]).state is PASSED
    assert judge([CI_OF_10], [anybodys, report("ci", FAILED, app_id=10)]).state is FAILED


def test_two_apps_bound_to_one_name_must_both_report() -> None:
    """One App's success is not the other's."""
    both = [CI_OF_10, RequiredCheck("ci", 11)]
    verdict = judge(both, [report("ci", app_id=10)])
    assert (verdict.state, verdict.pending_names) == (PENDING, ("ci",))
    assert judge(both, [report("ci", app_id=10), report("ci", app_id=11)]).state is PASSED


def test_failed_beats_pending_and_absent() -> None:
    """The first red ends the wait; it is named, and what had begun is not blamed."""
    verdict = judge([CI, RequiredCheck("lint", None)], [report("ci", FAILED)])
    assert verdict.state is FAILED
    assert [check.name for check in verdict.failed] == ["ci"]
    verdict = judge([], [report("lint", PENDING), report("ci", FAILED), report("docs")])
    assert verdict.state is FAILED
    assert [check.name for check in verdict.failed] == ["ci"]


def test_awaited_checks_are_named_once_and_sorted() -> None:
    """Absent and pending ones alike, so that webhooks can be counted against them."""
    required = [RequiredCheck(name, None) for name in ("unit", "build", "lint")]
    reports = [report("unit", PENDING), report("unit", PENDING, app_id=None), report("lint")]
    verdict = judge(required, reports)
    assert verdict.pending_names == ("build", "unit")
    assert [check.name for check in verdict.pending] == ["unit", "unit"]


def test_nothing_required_needs_at_least_one_report() -> None:
    """No report is no proof."""
    verdict = judge([], [])
    assert (verdict.state, verdict.reported) == (PENDING, False)


def test_last_completed_is_the_latest_of_the_counted_reports() -> None:
    """The settle time runs from the last report that counts."""
    reports = [report("ci", completed_at=NOW), report("lint", completed_at=NOW + SECOND), report("docs", PENDING)]
    assert judge([], reports).last_completed == NOW + SECOND
    assert judge([CI], reports).last_completed == NOW
    assert judge([], [report("ci", PENDING)]).last_completed is None


@pytest.mark.parametrize(
    ("pattern", "ignored", "counted"),
    [
        ("lint", ["lint"], ["lint2", "xlint", "Lint", ""]),
        ("lint/*", ["lint/", "lint/a", "lint/a/b"], ["lint", "a/lint/b"]),
        ("*/lint", ["/lint", "a/lint"], ["lint", "a/lint/b"]),
        ("a*b*c", ["abc", "a-b-c", "abbc", "abcabc"], ["ab", "ac", "acb", "abcd"]),
        ("aa*aa", ["aaaa", "aabaa"], ["aa", "aaa"]),
        ("*ab*ab*", ["abab", "ab-ab"], ["ab", "aab"]),
        ("*a*b*", ["aba", "a-b-a"], ["ba"]),
        ("*", ["lint", ""], []),
        ("**", ["lint", ""], []),
        ("a.c", ["a.c"], ["abc"]),
        ("a[bc]", ["a[bc]"], ["ab"]),
    ],
)
def test_ignored_pattern_takes_only_the_star_for_more_than_itself(
    pattern: str, ignored: list[str], counted: list[str]
) -> None:
    """`*` stands for any characters, none included; everything else for itself, the case too."""
    for name in ignored:
        assert not judge([], [report(name, FAILED)], [pattern]).failed
    for name in counted:
        assert judge([], [report(name, FAILED)], [pattern]).failed


def test_ignored_pattern_of_many_stars_takes_no_time() -> None:
    """A hostile pattern and name cost no time: each part is searched for once."""
    assert judge([], [report("a" * 50_000, FAILED)], ["*a" * 500 + "b"]).state is FAILED


def test_required_checks_are_those_of_protection_and_configuration() -> None:
    """Neither takes anything away from the other; unread rules demand nothing."""
    policy = replace(POLICY, checks=replace(POLICY.checks, required=frozenset({RequiredCheck("lint", 10)})))
    assert required_checks(rules("ci"), policy) == {CI, RequiredCheck("lint", 10)}
    assert required_checks(None, policy) == {RequiredCheck("lint", 10)}
    assert required_checks(rules(), POLICY) == frozenset()


@pytest.mark.parametrize(
    ("check", "own", "unreported"),
    [
        (RequiredCheck("IMQ", None), True, False),
        (RequiredCheck("IMQ", 99), True, False),
        (RequiredCheck("anything", 99), False, True),
        (RequiredCheck("IMQ", 10), False, False),
        (RequiredCheck("imq-lint", None), False, False),
        (RequiredCheck("ci", 10), False, False),
    ],
)
def test_check_of_imq_itself_is_known_by_name_and_app(check: RequiredCheck, own: bool, unreported: bool) -> None:
    """A namesake of another App's is none, and a check of IMQ's App by another name is never reported."""
    policy = replace(POLICY, own_app=99)
    assert is_own_check(check, policy.own_app) is own
    assert unreported_check([CI, check], policy.own_app) == (check.name if unreported else None)
    assert unreported_check([check], POLICY.own_app) is None


def test_no_entry_waits_for_imqs_own_check() -> None:
    """IMQ reports that check for its own merge, so the check is no requirement of the tests of a head."""
    required = rules("ci")
    both = replace(required, required_checks=required.required_checks | {RequiredCheck("IMQ", None)})
    assert required_checks(both, POLICY) == required_checks(required, POLICY)
    assert requires_own_check(both, POLICY)
    assert not requires_own_check(required, POLICY)


def test_former_checks_are_remembered_with_their_apps_whatever_their_names() -> None:
    """P1: a check of the same name by another App does not stand for it; a status may be anybody's."""
    names = former_names([report("ci: unit", app_id=10), report("lint", app_id=None), report("lint", app_id=None)])
    remembered = former_checks(Run(former_checks=names))
    assert remembered == {RequiredCheck("ci: unit", 10), RequiredCheck("lint", None)}
    assert len(names) == 2


@pytest.mark.parametrize(
    ("seconds", "conclusion", "workflow", "doubted"),
    [
        (3, "failure", 7, True),
        (15, "startup_failure", 7, True),
        (16, "failure", 7, False),
        (3, "cancelled", 7, False),
        (3, "failure", None, False),
    ],
)
def test_failed_job_of_a_few_seconds_may_not_have_run(
    seconds: int, conclusion: str, workflow: int | None, doubted: bool
) -> None:
    """GitHub fails what an unpaid plan keeps from starting after 1 to 5 s; other Apps are not paid for there."""
    failed = replace(
        report(state=CheckState.FAILED, conclusion=conclusion, workflow=workflow), started_at=NOW - seconds * SECOND
    )
    assert not_run([failed]) == (failed if doubted else None)


@pytest.mark.parametrize(
    ("suites", "counted"),
    [
        ({1: -1, 2: -1}, ()),
        ({1: -1, 2: 1}, (2,)),
        ({1: 1, 2: 1}, (1, 2, None)),
        ({1: 0, 2: 0}, ()),
        ({}, ()),
    ],
)
def test_reports_count_whose_runs_began_after_the_base_changed(
    suites: dict[int, int], counted: tuple[int | None, ...]
) -> None:
    """P1: one that began before tested another merge. A status has no suite: it counts once all suites are newer."""
    reports = [replace(report("ci"), suite=suite) for suite in (1, 2, None)]
    made = [
        CheckSuite("CI", True, "completed", "success", 1, created_at=NOW + at * SECOND, id=number)
        for number, at in suites.items()
    ]
    assert tuple(each.suite for each in reports_since(reports, made, NOW)) == counted
