"""Judge the reports on one commit: passed, failed or pending. Pure, over plain data.

GitHub's documentation on status checks has these rules. A required check matches by name and, where bound, by App. The
newest run of each App and name counts. A check run and a status of one name are both required, where bound those of
that App. An absent check is pending.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.config.patterns import branch_matches
from queue_engine.domain.facts import (
    BranchRules,
    CheckReport,
    CheckState,
    CheckSuite,
    FailingCheck,
    RequiredCheck,
    WorkflowRun,
    is_own_check,
)
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import RunSlots
from queue_engine.domain.run import CandidateTrigger, Run


@dataclass(frozen=True, slots=True)
class CommitChecks:
    """The state of a commit's checks together, and the checks that cause it."""

    state: CheckState
    pending_names: tuple[str, ...]
    """Names of pending and of absent checks, sorted."""
    pending: tuple[CheckReport, ...]
    failed: tuple[CheckReport, ...]
    completed_names: tuple[str, ...]
    """Names of completed checks that count, sorted."""
    reported: bool
    """Whether any check that counts has reported."""
    last_completed: datetime | None


def required_checks(rules: BranchRules | None, policy: Policy) -> frozenset[RequiredCheck]:
    """Return the checks that protection, rulesets and the repository's configuration require together.

    IMQ's own check is not among them: IMQ reports it for its own merge, and waits for it nowhere.
    """
    required = policy.checks.required | (rules.required_checks if rules else frozenset())
    return frozenset(check for check in required if not is_own_check(check, policy.own_app))


def head_checks(rules: BranchRules | None, policy: Policy) -> frozenset[RequiredCheck]:
    """Return the required checks that a head outside the queue has to pass: without the queue-only ones."""
    names = queue_only_names(policy)
    return frozenset(check for check in required_checks(rules, policy) if check.name not in names)


def run_checks(rules: BranchRules | None, policy: Policy) -> frozenset[RequiredCheck]:
    """Return the checks that the candidate of a run has to pass; none where every report counts.

    Then `expected_checks` has the queue-only ones.
    """
    required = required_checks(rules, policy)
    if not required:
        return required
    return required | {check for check in policy.checks.queue_only if not _names(required, check)}


def expected_checks(run: Run, required: Iterable[RequiredCheck], policy: Policy) -> frozenset[RequiredCheck]:
    """Return the checks that have to report on the candidate where every report counts; none elsewhere."""
    return frozenset() if required else former_checks(run) | policy.checks.queue_only


def needs_runner(capacity: RunSlots, ran: Mapping[str, bool], required: Iterable[RequiredCheck]) -> bool:
    """Whether a pull request may need these runners; `ran` says of each check on its head whether it was not skipped.

    A head without any report is unknown, and so is a required check that its head does not have: both may need one.
    """
    mine = {name for name in ran if any(_fits(name, pattern) for pattern in capacity.checks)}
    absent = {each.name for each in required} - ran.keys()
    return (
        not ran
        or any(ran[name] for name in mine)
        or any(_fits(name, pattern) for name in absent for pattern in capacity.checks)
    )


def queue_only_names(policy: Policy) -> frozenset[str]:
    """Return the names of the checks that run in the queue alone."""
    return frozenset(check.name for check in policy.checks.queue_only)


def needs_testing_label(before: Entry, after: Entry, policy: Policy) -> bool:
    """Whether the queue-only checks of a candidate have to be started.

    IMQ's own update has none of them yet. Any other candidate may have passed them before, which the first
    poll shows. A later poll requests the label again while one is absent: a person may have removed it.
    """
    if not policy.checks.queue_only or after.status is not EntryStatus.CHECKING:
        return False
    if after.head_sha != before.head_sha:
        return True
    return after.run.polls > before.run.polls and bool(queue_only_names(policy) & set(after.run.pending_checks))


def _names(required: Iterable[RequiredCheck], check: RequiredCheck) -> bool:
    """Whether one of the required checks is this one, and says by which App."""
    return check.app_id is None and any(one.name == check.name for one in required)


def requires_own_check(rules: BranchRules, policy: Policy) -> bool:
    """Return whether GitHub merges only heads on which IMQ's own check has passed."""
    return any(is_own_check(check, policy.own_app) for check in rules.required_checks)


def judge(
    required: Iterable[RequiredCheck],
    reports: Iterable[CheckReport],
    ignored: Sequence[str] = (),
    expected: Iterable[RequiredCheck] = (),
) -> CommitChecks:
    """Judge the checks of a commit. If none is required, all reports must pass, including all `expected` ones.

    `ignored` are names, or patterns with `*`, of checks that do not count; required checks always count.
    """
    reports = tuple(reports)
    required = frozenset(required)
    counting = counted(required, reports, ignored)
    wanted = required or {each for each in expected if not _is_ignored(each.name, ignored)}
    absent = {q.name for q in wanted if not any(matches(q, r) for r in reports)}
    failed = tuple(r for r in counting if r.state is CheckState.FAILED)
    pending = tuple(r for r in counting if r.state is CheckState.PENDING)
    pending_names = tuple(sorted(absent | {r.name for r in pending}))
    completed_names = tuple(sorted({r.name for r in counting} - set(pending_names)))
    if failed:
        state = CheckState.FAILED
    elif pending_names or not counting:
        state = CheckState.PENDING
    else:
        state = CheckState.PASSED
    completed = [r.completed_at for r in counting if r.completed_at is not None]
    return CommitChecks(
        state, pending_names, pending, failed, completed_names, bool(counting), max(completed, default=None)
    )


def counted(
    required: Collection[RequiredCheck], reports: Iterable[CheckReport], ignored: Sequence[str] = ()
) -> tuple[CheckReport, ...]:
    """Return the reports that count: those of required checks, or all that are not ignored where none is required."""
    if required:
        return tuple(r for r in reports if any(matches(q, r) for q in required))
    return tuple(r for r in reports if not _is_ignored(r.name, ignored))


def run_key(report: CheckReport) -> str:
    """Return the key of one check run; its id distinguishes a check run from its rerun, whatever the clocks say."""
    return f"{report.run_id}:{report.name}"


BREAKDOWNS = frozenset({"startup_failure", "timed_out", "cancelled", "stale", "error"})
"""GitHub's conclusions of checks whose result says nothing about the change. `action_required` is not among them: it
asks a person to act on this change."""


def is_rerun_in_queue(report: CheckReport, policy: Policy) -> bool:
    """Return whether a failed check is a job that broke down, and which IMQ reruns."""
    return report.by_actions and report.conclusion in BREAKDOWNS and policy.checks.reruns > 0


def cancelled_jobs(reports: Iterable[CheckReport], required: Collection[RequiredCheck] = ()) -> tuple[CheckReport, ...]:
    """Return the jobs of GitHub Actions that somebody cancelled, or GitHub for a newer run; only required checks."""
    return tuple(
        r
        for r in reports
        if r.by_actions and r.conclusion == "cancelled" and (not required or any(matches(q, r) for q in required))
    )


_AT_ONCE = timedelta(seconds=15)
"""GitHub ends a job that it does not start after 1 to 5 s (agent-governed-vaults #135, AgentSystem #530)."""


def not_run(reports: Iterable[CheckReport]) -> CheckReport | None:
    """Return a job of GitHub Actions that failed so soon that GitHub may not have started it; None if there is none."""
    return next((each for each in reports if each.by_actions and _failed_at_once(each)), None)


def _failed_at_once(report: CheckReport) -> bool:
    began, ended = report.started_at, report.completed_at
    at_once = began is not None and ended is not None and ended - began <= _AT_ONCE
    return report.conclusion in ("failure", "startup_failure") and at_once


def names_of(reports: Iterable[CheckReport]) -> tuple[str, ...]:
    """Return the names of these checks, each once."""
    return tuple(dict.fromkeys(report.name for report in reports))


def rerun_names(run: Run) -> tuple[str, ...]:
    """Return the names of the checks that were rerun on the candidate, each once."""
    return tuple(dict.fromkeys(key.partition(":")[2] for key in run.rerun_checks))


def rerun_counts(run: Run) -> Counter[str]:
    """Return how often each check was rerun on the candidate, by its name."""
    return Counter(key.partition(":")[2] for key in run.rerun_checks)


def of_now(run: Run, reports: Iterable[CheckReport], policy: Policy) -> tuple[CheckReport, ...]:
    """Return the reports as they count: a check run with a requested rerun is pending until a newer one appears.

    A queue-only check that was skipped did not run. GitHub starts a workflow for every label, and a job whose condition
    does not hold reports `skipped` (docs, "Status checks"; kumahq/kuma #17084).
    """
    names = queue_only_names(policy)
    return tuple(
        replace(r, state=CheckState.PENDING, conclusion="queued", completed_at=None)
        if run_key(r) in run.rerun_checks
        else r
        for r in reports
        if r.conclusion != "skipped" or r.name not in names
    )


def absent_checks(required: Iterable[RequiredCheck], reports: Iterable[CheckReport]) -> tuple[RequiredCheck, ...]:
    """Return the required checks without any report, by name."""
    reports = tuple(reports)
    absent = (check for check in required if not any(matches(check, report) for report in reports))
    return tuple(sorted(absent, key=lambda check: (check.name, check.app_id or 0)))


def matches(required: RequiredCheck, report: CheckReport) -> bool:
    """Whether the report is of this required check. A check bound to an App counts only from that App, because anyone
    with push access may set a status of any name."""
    return required.name == report.name and required.app_id in {None, report.app_id}


def former_names(reports: Iterable[CheckReport]) -> tuple[str, ...]:
    """Return the keys of checks that reported on the head before IMQ's update: `app:name`, without App for a status."""
    return tuple(sorted({f"{'' if r.app_id is None else r.app_id}:{r.name}" for r in reports}))


def former_checks(run: Run) -> frozenset[RequiredCheck]:
    """Return the checks that reported on the head before IMQ's update; none if IMQ has not read them."""
    former = (each.partition(":") for each in run.former_checks or ())
    return frozenset(RequiredCheck(name, int(app) if app else None) for app, _, name in former)


def with_runs(
    reports: Iterable[CheckReport], runs: Iterable[WorkflowRun], head_sha: str | None
) -> tuple[CheckReport, ...]:
    """Return the reports, each job of GitHub Actions with its proved workflow run.

    The proof is GitHub's list of the repository's runs on this head, by the check suite. A check's URL proves nothing,
    since the App that reports the check chooses the URL.
    """
    of_suite = {run.suite: run.id for run in runs if run.head_sha == head_sha}
    return tuple(replace(r, actions_run=of_suite.get(r.suite or 0)) if r.by_actions else r for r in reports)


def _is_ignored(name: str, patterns: Iterable[str]) -> bool:
    return any(_fits(name, pattern) for pattern in patterns)


def _fits(name: str, pattern: str) -> bool:
    """Whether a name matches this pattern, in which `*` stands for any characters; takes linear time."""
    first, *others = pattern.split("*")
    if not others:
        return name == pattern
    *middle, last = others
    if not name.startswith(first):
        return False
    at = len(first)
    for part in middle:
        found = name.find(part, at)
        if found < 0:
            return False
        at = found + len(part)
    return name.endswith(last) and len(name) - len(last) >= at


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
    """Return the reports on a candidate without those of workflow runs on another event or another branch.

    The commit may have other runs of GitHub Actions: of a push to the branch that built it, where a workflow runs on
    pushes to any branch, or of a pull request that a person opened with this commit. They test something else.
    """
    own = {run.suite: (run.event, run.branch) == (_EVENTS[trigger], branch) for run in runs}
    return tuple(report for report in reports if own.get(report.suite or 0, True))


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


_WORKFLOWS = ".github/workflows/"
"""The files that say what the checks do: a change of them always needs a test."""


@dataclass(frozen=True, slots=True)
class BaseChange:
    """What changed on a base branch from one of its commits to a later one."""

    before: str
    after: str
    paths: frozenset[str] | None
    """Former and new paths of all changed files; None if GitHub does not list them all."""


def need_no_test(paths: Iterable[str] | None, policy: Policy) -> bool:
    """Return whether all changed paths are known, and the configuration says that they need no test."""
    return paths is not None and all(_needs_no_test(path, policy) for path in paths)


def _needs_no_test(path: str, policy: Policy) -> bool:
    if path.startswith(_WORKFLOWS):
        return False
    return any(branch_matches(pattern, path) for pattern in policy.checks.untested_paths)


def reports_since(
    reports: Sequence[CheckReport], suites: Collection[CheckSuite], instant: datetime
) -> tuple[CheckReport, ...]:
    """Return the reports of runs that began after an instant: all, if the commit was pushed after it.

    GitHub creates a suite for each App at a push, and for each run of Actions. A rerun keeps its suite, and its merge.
    """
    began = {each.id for each in suites if each.created_at is not None and each.created_at > instant}
    if len(began) == len(suites) > 0:
        return tuple(reports)
    return tuple(each for each in reports if each.suite in began)
