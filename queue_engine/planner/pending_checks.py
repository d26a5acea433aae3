"""Judge checks that have not reported: whether they may still report, or their workflows await approval. Pure."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import no_jitter, wait
from queue_engine.domain.facts import CheckReport, CheckState, WorkflowRun
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Dequeue, FactKind, Facts, ReadFact, RunContext, SaveRun, Verdict, Wait
from queue_engine.planner.check_limits import check_deadline, timed_out, with_former_checks
from queue_engine.rules.checks import (
    CommitChecks,
    expected_checks,
    former_checks,
    judge,
    queue_only_names,
)
from queue_engine.rules.transitions import after_poll


def unapproved_runs(facts: Facts, verdict: CommitChecks) -> ReadFact | Dequeue | None:
    """Dequeue an entry whose missing checks can only come from workflow runs that await a maintainer's approval.

    So such runs block no other entry (P5); the maintainer who approves them queues the pull request again. None: no
    missing check depends on an approval.
    """
    absent = set(verdict.pending_names) - {report.name for report in verdict.pending}
    if not absent and verdict.reported:
        return None
    if any(report.by_actions for report in verdict.pending):
        # Jobs that depend on running ones appear when these have ended.
        return None
    if facts.workflow_runs is None:
        return ReadFact(FactKind.WORKFLOW_RUNS)
    if any(run.under_way for run in facts.workflow_runs):
        return None
    return _leave_unapproved(facts.workflow_runs, facts.reports or ())


def missing_where_nothing_is_required(
    run: Run, of: RunContext, facts: Facts, verdict: CommitChecks, policy: Policy, now: datetime
) -> Verdict | None:
    """Wait for further checks after all reported ones passed, where no check is required. None: none is missing.

    After IMQ's own update every check of the queued head has to report again. IMQ also waits for suites under way,
    because a fast App passes long before a slow one reports. Where no former check is known, the head may be so new
    that its other workflows have not started.
    """
    if (asked := with_former(run, of, facts, policy, now)) is not None:
        return asked
    if facts.suites is None:
        return ReadFact(FactKind.SUITES)
    if any(suite.by_actions and suite.conclusion == "action_required" for suite in facts.suites):
        if facts.workflow_runs is None:
            return ReadFact(FactKind.WORKFLOW_RUNS)
        if (unapproved := _leave_unapproved(facts.workflow_runs, facts.reports or ())) is not None:
            return unapproved
    under_way = tuple(sorted({suite.app for suite in facts.suites if suite.under_way}))
    if not under_way:
        due = _others_started(facts.reports or (), run.since, policy)
        if former_checks(run) or now >= due:
            return None
        return Wait(replace(run, next_poll_at=due), due)
    deadline = check_deadline(run, policy)
    if now >= deadline:
        return timed_out(run, under_way, policy)
    # No check is pending by name, so each report makes the entry due.
    waiting = after_poll(run, policy.check_poll, now)
    due = min(waiting.next_poll_at or now, deadline)
    waiting = replace(waiting, next_poll_at=due, pending_checks=(), completed_checks=verdict.completed_names)
    return Wait(waiting, due)


def with_former(
    run: Run, of: RunContext, facts: Facts, policy: Policy, now: datetime
) -> ReadFact | SaveRun | Wait | None:
    """Read, once for each of IMQ's own updates, which checks reported on the queued head. None: they are known.

    Of a queued head that is newer than a minute, slow workflows may be missing: IMQ reads it again after that time.
    """
    if not of.is_update or run.former_checks is not None:
        return None
    reports = facts.former_reports
    if reports is not None and now < (due := _others_started(reports, of.known_since, policy)):
        return Wait(replace(run, next_poll_at=due), due)
    return with_former_checks(run, facts)


def await_former(
    run: Run, of: RunContext, facts: Facts, policy: Policy, now: datetime
) -> ReadFact | SaveRun | Wait | None:
    """Put off the first poll of IMQ's update until all checks of the queued head have reported on it, by webhooks.

    So checks that complete minutes after each other cost one poll together. None: the poll is due.
    """
    asked = with_former(run, of, facts, policy, now)
    if not isinstance(asked, SaveRun):
        return asked
    expected = judge((), (), policy.checks.ignored, expected_checks(asked.run, (), policy)).pending_names
    if set(expected) <= set(run.completed_checks):
        return asked
    again = now + wait(policy.check_poll, 0, random=no_jitter)
    return SaveRun(replace(asked.run, pending_checks=expected, next_poll_at=again))


def _others_started(reports: tuple[CheckReport, ...], known_since: datetime, policy: Policy) -> datetime:
    """Return when every workflow on a head has started: some time after its first report, or after IMQ knew the head.

    A fast App reports within a second of the push, and a workflow of GitHub Actions may start half a minute after it.
    """
    reported = (at for report in reports for at in (report.started_at, report.completed_at) if at is not None)
    return min([known_since, *reported]) + policy.later_workflows


def not_repeated(verdict: CommitChecks, policy: Policy) -> Dequeue | None:
    """Dequeue the entry if all missing checks reported on the queued head, but not on IMQ's update of it."""
    if not verdict.reported or verdict.pending or queue_only_names(policy) & set(verdict.pending_names):
        return None
    return Dequeue(Reason.CHECKS_NOT_REPEATED, detail=few(verdict.pending_names), checks=verdict.pending)


def has_jobs(run: WorkflowRun, reports: Iterable[CheckReport]) -> bool:
    """Whether a job of this run is among the reports on its commit."""
    return any(report.suite == run.suite for report in reports)


def _leave_unapproved(runs: tuple[WorkflowRun, ...], reports: tuple[CheckReport, ...]) -> Dequeue | None:
    parked = [run for run in runs if run.awaits_approval and not has_jobs(run, reports)]
    return leave_for_runs(Reason.WORKFLOWS_UNAPPROVED, parked) if parked else None


def leave_for_runs(reason: Reason, runs: Iterable[WorkflowRun]) -> Dequeue:
    """Dequeue an entry because of these runs, with the link of the newest of each name."""
    shown = (
        CheckReport(run.name, None, CheckState.PENDING, run.conclusion or run.status, run.url, None, None)
        for run in sorted(runs, key=lambda run: run.id)
    )
    newest = {report.name: report for report in shown}
    return Dequeue(reason, detail=few(tuple(newest)), checks=tuple(newest.values()))
