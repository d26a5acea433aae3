"""Limit how long checks may take, from their start where IMQ knows it. Pure.

`started_at` of a job of GitHub Actions is not reliable. It may be set again when the job starts (actions/runner #1881),
or show when the job was queued (strands-labs/robots #2509). So the time counts from the first poll that found the check
running.
"""

from collections.abc import Collection
from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.facts import CheckReport
from queue_engine.domain.reasons import Reason, few
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Dequeue, FactKind, Facts, ReadFact, RunContext, SaveRun, Verdict, Wait
from queue_engine.rules.checks import CommitChecks, former_names, queue_only_names
from queue_engine.rules.transitions import after_poll

_USUAL = 5 / 12
"""The part of a measured time limit, which is three times the usual time, after which most checks have ended."""


def check_limit(run: Run, policy: Policy, names: Collection[str] = ()) -> timedelta:
    """How long these checks may take, or all of the candidate: as the slowest took before, at most as configured."""
    measured = _measured(run, names)
    if measured is None:
        return policy.checks.timeout or policy.checks.fallback_timeout
    return measured if policy.checks.timeout is None else min(measured, policy.checks.timeout)


def _measured(run: Run, names: Collection[str]) -> timedelta | None:
    """Return the time limit by how long these checks took before; None if IMQ has not measured one of them."""
    limits = run.check_limits or {}
    seconds = [limits.get(name) for name in names] if names else [*limits.values()]
    known = [each for each in seconds if each is not None]
    return timedelta(seconds=max(known)) if known and len(known) == len(seconds) else None


def check_deadline(run: Run, policy: Policy, names: Collection[str] = ()) -> datetime:
    """When the time limit of these checks ends, or of all; each check that starts begins the time again."""
    return max(run.since, run.checks_started_at or run.since) + check_limit(run, policy, names)


def with_started(run: Run, verdict: CommitChecks, now: datetime) -> Run:
    """Record which checks of the candidate have started, and when the newest of these did."""
    running = tuple(report for report in verdict.pending if report.started)
    new = {*verdict.completed_names, *(report.name for report in running)} - set(run.started_checks)
    if not new:
        return run
    at = now
    if not new & {report.name for report in running}:
        at = min(verdict.last_completed or now, now)
    elif run.polls == 0 and not any(report.by_actions for report in running):
        # The first poll of this head, and all running checks are of Apps whose `started_at` is reliable.
        reported = (report.started_at for report in running if report.started_at is not None)
        at = min(max(reported, default=run.since), now)
    started = tuple(sorted({*run.started_checks, *new}))
    return replace(run, started_checks=started, checks_started_at=max(at, run.since))


def keep_checking(run: Run, verdict: CommitChecks, policy: Policy, now: datetime, deadline: datetime) -> Wait:
    """Wait for the next poll of the checks, which comes before this instant.

    Webhooks report the end of checks that run. A poll before it usually comes would find nothing (P7).
    """
    waiting = after_poll(run, policy.check_poll, now)
    due = waiting.next_poll_at or now
    usual = _measured(run, verdict.pending_names)
    if usual is not None and set(verdict.pending_names) == {each.name for each in verdict.pending if each.started}:
        due = max(due, (run.checks_started_at or run.since) + usual * _USUAL)
    due = min(due, deadline)
    waiting = replace(
        waiting,
        next_poll_at=due,
        pending_checks=verdict.pending_names,
        completed_checks=verdict.completed_names,
    )
    return Wait(waiting, due, verdict.pending)


def overdue(run: Run, of: RunContext, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime) -> Verdict:
    """Judge checks that exceeded their time limit: they are too slow, never report, or the CI starts no check at all.

    A queued check has not started, however long it waits; GitHub cancels it after a day (docs: usage limits). An absent
    check counts as late only if it reported on the queued head, and no check has started on the present head. A path
    filter would skip the check on both heads.
    """
    if any(report.started for report in verdict.pending):
        return timed_out(run, verdict.pending_names, policy, verdict.pending)
    given_up = run.since + check_limit(run, policy, verdict.pending_names) + policy.stall_timeout
    if now >= given_up:
        return timed_out(run, verdict.pending_names, policy, verdict.pending)
    if verdict.pending:
        return _not_starting(run, tuple(sorted({report.name for report in verdict.pending})), verdict, policy, now)
    if run.started_checks or not of.is_update:
        return timed_out(run, verdict.pending_names, policy)
    if run.former_checks is None:
        return with_former_checks(run, facts)
    known = {each.partition(":")[2] for each in run.former_checks or ()}
    if not known & set(verdict.pending_names):
        return timed_out(run, verdict.pending_names, policy)
    if facts.ci_active_at is not None and now >= facts.ci_active_at + policy.checks.first_report:
        # The CI works, and starts no check on this head.
        return timed_out(run, verdict.pending_names, policy)
    return _not_starting(run, verdict.pending_names, verdict, policy, now, ci_active_at=facts.ci_active_at)


def _not_starting(
    run: Run,
    names: tuple[str, ...],
    verdict: CommitChecks,
    policy: Policy,
    now: datetime,
    *,
    ci_active_at: datetime | None = None,
) -> Wait:
    """Wait until a check starts: a webhook reports that, and rare polls find it if the webhook was lost."""
    again = now + policy.check_poll.base
    if ci_active_at is not None:
        again = min(again, ci_active_at + policy.checks.first_report)
    waiting = replace(
        run,
        polls=run.polls + 1,
        next_poll_at=again,
        pending_checks=verdict.pending_names,
        completed_checks=verdict.completed_names,
    )
    return Wait(waiting, again, verdict.pending, not_starting=names)


def waits_for_start(run: Run, head_sha: str) -> bool:
    """Whether the run tests this candidate, and no check has started on it."""
    return run.candidate == head_sha and not run.started_checks


def with_former_checks(run: Run, facts: Facts) -> ReadFact | SaveRun:
    """Record which checks reported on the head before IMQ's update, once the pass has read that."""
    if facts.former_reports is None:
        return ReadFact(FactKind.FORMER_REPORTS)
    return SaveRun(replace(run, former_checks=former_names(facts.former_reports)))


def timed_out(run: Run, names: tuple[str, ...], policy: Policy, pending: tuple[CheckReport, ...] = ()) -> Dequeue:
    """Dequeue the entry, because these checks did not complete in time; `pending` are those that have started."""
    detail = f"{few(names)} (limit: {_limit_explained(run, names, policy)})"
    absent = queue_only_names(policy) & (set(names) - {report.name for report in pending})
    if absent:
        detail += f"; no workflow ran {few(tuple(sorted(absent)))} after the label {policy.checks.testing_label}"
    return Dequeue(Reason.CHECKS_TIMED_OUT, detail=detail, checks=pending)


def _limit_explained(run: Run, names: Collection[str], policy: Policy) -> str:
    """The time limit of these checks in words, and its origin."""
    limit, measured = check_limit(run, policy, names), _measured(run, names)
    words = f"{round(limit / timedelta(minutes=1))} minutes"
    if measured is not None and limit == measured:
        return f"{words}, by how long checks took here before"
    if policy.checks.timeout is not None:
        return f"{words}, as configured"
    return f"{words}, while there is no history to tell how long checks take here"
