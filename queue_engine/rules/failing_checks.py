"""Name the checks that failed, with one link for each workflow run, and the jobs to look at; find the base's. Pure."""

import re
from collections.abc import Iterable

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.failing_check import FailingCheck

_MOST = 20
_MOST_JOBS = 50

_WORKFLOW_RUN = re.compile(r"(https?://[^?#]+/actions/runs/[^/?#]+)")
"""The link of a workflow run, with which the link of each of its jobs begins.

GitHub's documentation has `html_url` of a workflow run as `…/actions/runs/{run_id}` (REST, "Workflow runs"), and of a
job as `…/actions/runs/{run_id}/job/{job_id}` (REST, "Workflow jobs"; cli/cli `pkg/cmd/run/shared`). Older servers link
a job as `…/runs/{check_run_id}`: then the link of the first failed job stands for its run.
"""

_NO_EVIDENCE = frozenset({"cancelled", "stale", "action_required"})
"""Conclusions of a check on the base that do not show the base to be red."""


def failing_checks(failed: Iterable[CheckReport], reports: Iterable[CheckReport] | None) -> tuple[FailingCheck, ...]:
    """Describe the failed checks; `reports` are all on the commit, of which other jobs of the same run may have failed.

    A required job often only waits for others. So the jobs of its run that failed are named with it.
    """
    every = tuple(reports or ())
    found: dict[tuple[str, object], FailingCheck] = {}
    for check in failed:
        key = _workflow_run(check)
        earlier = found.get(key)
        if earlier is None:
            jobs = _failed_jobs(check, every) if check.by_actions else ()
            found[key] = FailingCheck(check.name, _link(check), jobs)
    return tuple(found.values())[:_MOST]


def _workflow_run(check: CheckReport) -> tuple[str, object]:
    """Identify the workflow run of a job: Actions has one check suite for each run. Any other check is its own."""
    if check.by_actions and check.suite is not None:
        return "suite", check.suite
    return check.name, check.run_id


def _failed_jobs(check: CheckReport, every: Iterable[CheckReport]) -> tuple[str, ...]:
    others = (
        each.name
        for each in every
        if each.by_actions and each.suite == check.suite is not None and each.state is CheckState.FAILED
    )
    return tuple(dict.fromkeys((check.name, *others)))[:_MOST_JOBS]


def _link(check: CheckReport) -> str | None:
    """Return the link of the workflow run or the check; an App chooses the links of its checks."""
    url = check.url or ""
    if check.by_actions and (run := _WORKFLOW_RUN.match(url)) is not None:
        return run[1]
    return url if url.startswith(("https://", "http://")) else None


def report_on_base(check: CheckReport, on_base: Iterable[CheckReport]) -> CheckReport | None:
    """Find the check's report on the base. Of several, for example of several events, a failed one counts first."""
    on_base = [report for report in on_base if _source(report) == _source(check)]
    decisive = (next((r for r in on_base if is_red(r)), None), next((r for r in on_base if not r.completed_at), None))
    return next((report for report in (*decisive, *on_base) if report is not None), None)


def is_red(report: CheckReport | None) -> bool:
    """Return whether this report on the base shows the base to be red."""
    return report is not None and report.state is CheckState.FAILED and report.conclusion not in _NO_EVIDENCE


def _source(report: CheckReport) -> tuple[str, int | None, bool]:
    """Identify the source of a report: an App may have a check run and a status of one name."""
    return report.name, report.app_id, report.run_id is None
