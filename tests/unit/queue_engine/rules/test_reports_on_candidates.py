"""Which reports on the commit of a candidate count."""

from datetime import UTC, datetime

import pytest

from queue_engine.domain.facts import CheckReport, CheckState, WorkflowRun
from queue_engine.domain.run import CandidateTrigger
from queue_engine.rules.checks import is_ambiguous, of_candidate

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def report(name: str, suite: int, *, by_actions: bool = True) -> CheckReport:
    return CheckReport(name, 1, CheckState.PASSED, "success", None, NOW, NOW, suite * 10, None, suite, by_actions)


def run(suite: int, event: str, branch: str) -> WorkflowRun:
    return WorkflowRun(suite, "CI", 1, event, suite, "c1", "completed", "success", None, "imq", "imq", NOW, branch)


@pytest.mark.parametrize(
    ("trigger", "counts"),
    [(CandidateTrigger.PUSH, 1), (CandidateTrigger.PULL_REQUEST, 3), (CandidateTrigger.DISPATCH, 4)],
)
def test_report_counts_only_if_the_trigger_of_its_candidate_caused_it(trigger: CandidateTrigger, counts: int) -> None:
    """P1: a push to the branch that builds it, and other events of the same commit, test something else."""
    runs = [
        run(1, "push", "imq/main/7"),
        run(2, "push", "imq-build/main/7"),
        run(3, "pull_request", "imq/main/7"),
        run(4, "workflow_dispatch", "imq/main/7"),
        run(5, "pull_request", "feature"),
    ]
    reports = [report("test", suite) for suite in range(1, 6)]
    assert [each.suite for each in of_candidate(reports, runs, trigger, "imq/main/7")] == [counts]


def test_reports_of_other_apps_and_of_unknown_runs_count() -> None:
    """IMQ cannot tell what caused them; without its permission to read runs all count."""
    reports = [report("test", 1), report("test", 9, by_actions=False), report("lint", 8)]
    assert of_candidate(reports, [run(1, "push", "main")], CandidateTrigger.PUSH, "imq/main/7") == tuple(reports[1:])
    assert of_candidate(reports, [], CandidateTrigger.PUSH, "imq/main/7") == tuple(reports)


def test_events_are_read_only_if_several_runs_report_one_check() -> None:
    """P7: one run for each check costs no request."""
    assert not is_ambiguous([report("test", 1), report("lint", 2), report("test", 3, by_actions=False)])
    assert is_ambiguous([report("test", 1), report("test", 2)])
