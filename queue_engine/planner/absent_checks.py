"""Judge required checks that are absent on a head on which nothing runs: what reports them may never come. Pure.

A workflow that a filter or the head's message skips leaves its checks pending for ever (docs, "Troubleshooting required
status checks"). So does a renamed job, or an App that was uninstalled. Other entries do not wait for that (P5): the
pull request waits outside the queue, and joins when the check reports. A check that no commit has stops every pull
request: that is said once, as a blocker of the queue.
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.facts import (
    CheckReport,
    CheckState,
    CheckSuite,
    FailingCheck,
    RequiredCheck,
    WorkflowRun,
    unreported_check,
)
from queue_engine.domain.model import Entry, UnmetRequirement
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import Run
from queue_engine.planner.actions import (
    Absent,
    Dequeue,
    FactKind,
    Facts,
    HoldBase,
    ReadFact,
    RunContext,
    Unmet,
    Verdict,
    Wait,
)
from queue_engine.planner.check_limits import check_deadline, keep_checking, with_former_checks, with_started
from queue_engine.planner.pending_checks import has_jobs, leave_for_runs
from queue_engine.rules.check_progress import safe_link
from queue_engine.rules.checks import (
    CommitChecks,
    absent_checks,
    former_checks,
    head_checks,
    judge,
    matches,
    of_now,
)
from queue_engine.rules.eligibility import waits

_SKIPPING = ("[skip ci]", "[ci skip]", "[no ci]", "[skip actions]", "[actions skip]")
"""In the message of the head, each skips the workflows of GitHub Actions (docs, "Skipping workflow runs")."""
_CALLED = re.compile(r"\buses[\"']?:\s*[\"']?[.$]/\.github/workflows/([\w.-]+\.ya?ml)")
"""A local workflow that a job calls: `./`, or `$/` as GitHub recommends for local actions."""
_TRAILER = re.compile(r"^skip-checks: ?true\r?$", re.MULTILINE)


def judge_absent(
    run: Run, of: RunContext, facts: Facts, policy: Policy, now: datetime, *, after: timedelta | None = None
) -> Verdict | None:
    """Judge absent required checks of a run, once the pass has read its reports; None: they may still come.

    `after`: how long the checks of an update have to report, if that is not what the policy says.
    """
    if (lacks := _lacking(run, facts, policy)) is None:
        return None
    absent, verdict = lacks
    if facts.workflow_runs is None:
        return ReadFact(FactKind.WORKFLOW_RUNS)
    if any(each.under_way or each.awaits_approval for each in facts.workflow_runs):
        return None
    broken = broken_runs(facts.workflow_runs, facts.reports or ())
    # The other workflows need time to start.
    others_due = max((each.created_at + policy.later_workflows for each in broken), default=None)
    if others_due is not None and now >= others_due:
        if facts.others is None:
            return ReadFact(FactKind.RECENT_COMMITS)
        if not absent or _by_actions(absent, facts.others.reports):
            return _of_base(run, of, broken, facts) or leave_for_runs(Reason.WORKFLOW_WITHOUT_JOBS, broken)
        others_due = None
    if not absent:
        return None if others_due is None else Wait(run, others_due)
    due = _reports_due(run, of, facts, policy, after)
    if now < due and not of.is_update and facts.suites is None:
        return ReadFact(FactKind.SUITES)
    if now < due:
        return _wait_on(run, absent, verdict, policy, now, min(due, others_due or due))
    if of.is_update and run.former_checks is None:
        return with_former_checks(run, facts)
    if facts.others is None:
        return ReadFact(FactKind.RECENT_COMMITS)
    if of.is_update and _may_come(run, absent, facts, policy, now):
        return _wait_on(run, absent, verdict, policy, now, now + policy.check_poll.base)
    return _never_or_not_here(run, of, absent, facts, policy, now)


def _lacking(run: Run, facts: Facts, policy: Policy) -> tuple[Sequence[RequiredCheck], CommitChecks] | None:
    """Return the absent checks, while no other check decides; none where nothing is required, and nothing reports."""
    if facts.rules is None or facts.reports is None or run.rerun_at is not None:
        return None
    required = head_checks(facts.rules, policy)
    if unreported_check(required, policy.own_app) is not None:
        return None
    reports = of_now(run, facts.reports, policy)
    # Where nothing is required, the checks of the queued head have to report again.
    required = required if required or reports else former_checks(run)
    absent, verdict = absent_checks(required, reports), judge(required, reports)
    silent = not required and not reports and not policy.checks.land_without
    runs = any(each.state is CheckState.PENDING and each.by_actions for each in reports)
    return None if not (absent or silent) or runs or verdict.pending or verdict.failed else (absent, verdict)


def _reports_due(run: Run, of: RunContext, facts: Facts, policy: Policy, after: timedelta | None) -> datetime:
    """Return when the checks of the head have to be there, if they come at all."""
    if not of.is_update:
        reports = of_now(run, facts.reports or (), policy)
        return _known_since(of, reports, facts.suites or ()) + policy.checks.first_report
    # IMQ reads the checks of its own update no sooner: their webhooks come before.
    return run.since + (max(policy.checks.first_report, policy.check_poll.base) if after is None else after)


def _wait_on(
    run: Run,
    absent: Sequence[RequiredCheck],
    verdict: CommitChecks,
    policy: Policy,
    now: datetime,
    due: datetime,
) -> Wait | None:
    """Wait until then at most for these checks; None if their time limit has ended."""
    started = with_started(run, verdict, now)
    deadline = check_deadline(started, policy, _names(absent))
    return keep_checking(started, verdict, policy, now, min(due, deadline)) if now < deadline else None


def _never_or_not_here(
    run: Run, of: RunContext, absent: Sequence[RequiredCheck], facts: Facts, policy: Policy, now: datetime
) -> Verdict | None:
    """Tell checks that no commit has from those that only this head lacks."""
    assert facts.others is not None
    by_others = _reported_by_others(absent, facts.reports or ())
    if by_others and facts.suites is None:
        # Their suites name the Apps.
        return ReadFact(FactKind.SUITES)
    former = former_checks(run)
    if never := [
        each
        for each in absent
        if not _is_among(each, former)
        and not _is_known(each, run, by_others)
        and not any(matches(each, report) for report in facts.others.reports)
    ]:
        if (held := _of_base(run, of, broken_runs(facts.workflow_runs or (), facts.reports or ()), facts)) is not None:
            return held
        shown = _explained(never, by_others, facts.suites or ())
        return Wait(run, now + policy.check_poll.base, never=shown)
    if facts.rules is not None and not head_checks(facts.rules, policy):
        return Dequeue(Reason.CHECKS_NOT_REPEATED, detail=few(_names(absent)))
    detail = _explained(absent, by_others, facts.suites or ())
    if (word := skipped_by(facts.others.message)) is not None:
        detail += f": the message of the head has {word}"
    return Absent(detail)


def leave_for_absent(entry: Entry, lacks: Absent, policy: Policy) -> Unmet | Dequeue:
    """Have an entry wait outside its queue for checks that its head lacks, or leave where nothing waits so."""
    if not waits(policy):
        return Dequeue(Reason.CHECK_ABSENT, detail=lacks.detail)
    return Unmet(entry, (UnmetRequirement(Reason.CHECK_ABSENT, lacks.detail),))


def leave_for_base(entry: Entry, old: Iterable[CheckReport], policy: Policy) -> Unmet | Dequeue:
    """Have an entry wait outside its queue for checks that test it on its present base, or leave as above."""
    detail = few(tuple(sorted({each.name for each in old})))
    if not waits(policy):
        return Dequeue(Reason.TESTED_ON_ANOTHER_BASE, detail=detail)
    return Unmet(entry, (UnmetRequirement(Reason.TESTED_ON_ANOTHER_BASE, detail),))


def broken_runs(runs: Iterable[WorkflowRun], reports: Sequence[CheckReport]) -> list[WorkflowRun]:
    """Return the newest runs that ended without a job, each of its workflow and event."""
    newest = {(run.workflow, run.event): run for run in sorted(runs, key=lambda run: run.id)}
    return [run for run in newest.values() if run.broke and not has_jobs(run, reports)]


def _of_base(run: Run, of: RunContext, broken: Sequence[WorkflowRun], facts: Facts) -> ReadFact | HoldBase | None:
    """Hold the queue if the base itself has a workflow that broke: each pull request would break as well."""
    if not broken or of.fixes_base:
        return None
    if facts.broken_on_base is None:
        return ReadFact(FactKind.BROKEN_ON_BASE)
    of_base = [each for each in broken if each.workflow in facts.broken_on_base]
    if not of_base:
        return None
    first = min(of_base, key=lambda each: each.path)
    check = CheckReport(first.path, None, CheckState.FAILED, first.conclusion or first.status, first.url, None, None)
    shown = tuple(FailingCheck(each.path, safe_link(each.url)) for each in of_base)
    waiting = replace(run.without_failures(), polls=0, next_poll_at=None)
    return HoldBase(waiting, check, run.base_tip or of.base_branch, shown)


def is_as_on_base(path: str, tested: Mapping[str, str], on_base: Mapping[str, str]) -> bool:
    """Return whether a workflow file, with the local workflows that it calls, is the same on the base branch.

    A run may break as well where a workflow that it calls is invalid.
    """
    known, new = set[str](), {path}
    while new:
        known |= new
        if any(not tested.get(each) or tested.get(each) != on_base.get(each) for each in new):
            return False
        called = (_CALLED.findall(tested[each]) for each in new)
        new = {f".github/workflows/{name}" for names in called for name in names} - known
    return True


def _by_actions(absent: Iterable[RequiredCheck], others: Iterable[CheckReport]) -> bool:
    """Whether GitHub Actions reports one of these checks on other commits: then a run that broke may be its source."""
    return any(report.by_actions and matches(check, report) for check in absent for report in others)


def _is_known(check: RequiredCheck, run: Run, by_others: Collection[CheckReport]) -> bool:
    """Return whether IMQ has measured this check before, and nothing says that it was another App's."""
    return check.name in (run.check_limits or {}) and all(each.name != check.name for each in by_others)


def skipped_by(message: str) -> str | None:
    """Return the word in the message of a commit that keeps GitHub Actions from running on it."""
    if (found := next((word for word in _SKIPPING if word in message.lower()), None)) is not None:
        return found
    return "skip-checks: true" if _TRAILER.search(message) is not None else None


def _known_since(of: RunContext, reports: Iterable[CheckReport], suites: Iterable[CheckSuite]) -> datetime:
    """Return when GitHub had the head at the latest: a report, a suite, or the request to queue it says so."""
    instants = [at for report in reports for at in (report.started_at, report.completed_at)]
    instants += [suite.created_at for suite in suites]
    return min([of.known_since, *(at for at in instants if at is not None)])


def _may_come(run: Run, absent: Sequence[RequiredCheck], facts: Facts, policy: Policy, now: datetime) -> bool:
    """Whether checks that the queued head had may still report on IMQ's update of it.

    No path filter skips them then. The CI may be down, or slow to begin; unless it has begun on other commits since.
    """
    former = former_checks(run)
    again = [each for each in absent if _is_among(each, former)]
    if len(again) < len(absent):
        return False
    statuses = {known.name for known in former if known.app_id is None}
    if statuses & {each.name for each in absent} and now < check_deadline(run, policy, _names(absent)):
        # A status appears only when its sender reports it, which may be at the end.
        return True
    since = run.since
    others = facts.others.reports if facts.others is not None else ()
    begun = any(
        report.started_at is not None and report.started_at > since
        for report in others
        if any(matches(each, report) for each in absent)
    )
    active = facts.ci_active_at is not None and now >= facts.ci_active_at + policy.checks.first_report
    return not begun and not active


def _is_among(check: RequiredCheck, former: Iterable[RequiredCheck]) -> bool:
    """Whether the queued head had this check; one by another App is none."""
    return any(check.name == known.name and check.app_id in {None, known.app_id} for known in former)


def _reported_by_others(absent: Iterable[RequiredCheck], reports: Iterable[CheckReport]) -> tuple[CheckReport, ...]:
    """Return the reports with the name of an absent check: another App than the required one made them."""
    names = {check.name for check in absent}
    return tuple(report for report in reports if report.name in names)


def _explained(absent: Iterable[RequiredCheck], by_others: Iterable[CheckReport], suites: Iterable[CheckSuite]) -> str:
    """Name these checks; where another App reported the name, both Apps."""
    apps: dict[int | None, str] = {
        suite.app_id: suite.app for suite in suites if suite.app_id is not None and suite.app
    }
    shown = []
    for check in absent:
        others = [report for report in by_others if report.name == check.name]
        if not others:
            shown.append(check.name)
            continue
        wanted = apps.get(check.app_id, f"the App with the id {check.app_id}")
        found = " and ".join(dict.fromkeys(apps.get(each.app_id, "somebody else") for each in others))
        shown.append(f"{check.name} (required from {wanted}, reported by {found})")
    return few(tuple(shown))


def _names(checks: Iterable[RequiredCheck]) -> tuple[str, ...]:
    return tuple(sorted({check.name for check in checks}))
