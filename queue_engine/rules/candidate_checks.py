"""Select the reports on a candidate that its own trigger caused. Pure.

The commit of a candidate may have other runs of GitHub Actions: of a push to the branch that built it, where a workflow
runs on pushes to any branch, or of a pull request that a person opened with this commit. They test something else.
"""

from collections import defaultdict
from collections.abc import Iterable

from queue_engine.domain.candidate_run import CandidateTrigger
from queue_engine.domain.facts import CheckReport
from queue_engine.domain.workflow_runs import WorkflowRun

_EVENTS = {
    CandidateTrigger.PUSH: "push",
    CandidateTrigger.PULL_REQUEST: "pull_request",
    CandidateTrigger.DISPATCH: "workflow_dispatch",
}


def is_ambiguous(reports: Iterable[CheckReport]) -> bool:
    """Return whether several workflow runs report one check, so that their events tell which one counts."""
    suites: dict[str, set[int | None]] = defaultdict(set)
    for report in reports:
        if report.by_actions:
            suites[report.name].add(report.suite)
    return any(len(found) > 1 for found in suites.values())


def of_candidate(
    reports: Iterable[CheckReport], runs: Iterable[WorkflowRun], trigger: CandidateTrigger, branch: str
) -> tuple[CheckReport, ...]:
    """Return the reports without those of workflow runs on another event or another branch."""
    own = {run.suite: (run.event, run.branch) == (_EVENTS[trigger], branch) for run in runs}
    return tuple(report for report in reports if own.get(report.suite or 0, True))
