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
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Save, Wait
from queue_engine.rules.checks import CommitChecks, former_names, queue_only_names
from queue_engine.rules.transitions import after_poll

_USUAL = 5 / 12
"""The part of a measured time limit, which is three times the usual time, after which most checks have ended."""
_NAMED = 10
"""How many checks an explanation names."""


def check_limit(entry: Entry, policy: Policy, names: Collection[str] = ()) -> timedelta:
    """How long these checks may take, or all of its head: as the slowest took before, at most as configured."""
    measured = _measured(entry, names)
    if measured is None:
        return policy.checks.timeout or policy.checks.fallback_timeout
    return measured if policy.checks.timeout is None else min(measured, policy.checks.timeout)


def _measured(entry: Entry, names: Collection[str]) -> timedelta | None:
    """Return the time limit by how long these checks took before; None if IMQ has not measured one of them."""
    limits = entry.run.check_limits or {}
    seconds = [limits.get(name) for name in names] if names else [*limits.values()]
    known = [each for each in seconds if each is not None]
    return timedelta(seconds=max(known)) if known and len(known) == len(seconds) else None


def check_deadline(entry: Entry, policy: Policy, names: Collection[str] = ()) -> datetime:
    """When the time limit of these checks ends, or of all; each check that starts begins the time again."""
    since = max(entry.status_since, entry.run.checks_started_at or entry.status_since)
    return since + check_limit(entry, policy, names)


def with_started(entry: Entry, verdict: CommitChecks, now: datetime) -> Entry:
    """Record which checks of the entry have started, and when the newest of these did."""
    running = tuple(report for report in verdict.pending if report.started)
    new = {*verdict.completed_names, *(report.name for report in running)} - set(entry.run.started_checks)
    if not new:
        return entry
    at = now
    if not new & {report.name for report in running}:
        at = min(verdict.last_completed or now, now)
    elif entry.run.polls == 0 and not any(report.by_actions for report in running):
        # The first poll of this head, and all running checks are of Apps whose `started_at` is reliable.
        reported = (report.started_at for report in running if report.started_at is not None)
        at = min(max(reported, default=entry.status_since), now)
    started = tuple(sorted({*entry.run.started_checks, *new}))
    return replace(entry, run=replace(entry.run, started_checks=started, checks_started_at=max(at, entry.status_since)))


def keep_checking(entry: Entry, verdict: CommitChecks, policy: Policy, now: datetime, deadline: datetime) -> Wait:
    """Wait for the next poll of the checks, which comes before this instant.

    Webhooks report the end of checks that run. A poll before it usually comes would find nothing (P7).
    """
    waiting = after_poll(entry, policy.check_poll, now)
    due = waiting.run.next_poll_at or now
    usual = _measured(entry, verdict.pending_names)
    if usual is not None and set(verdict.pending_names) == {each.name for each in verdict.pending if each.started}:
        due = max(due, (entry.run.checks_started_at or entry.status_since) + usual * _USUAL)
    due = min(due, deadline)
    waiting = replace(
        waiting,
        run=replace(
            waiting.run,
            next_poll_at=due,
            pending_checks=verdict.pending_names,
            completed_checks=verdict.completed_names,
        ),
    )
    return Wait(waiting, due, verdict.pending)


def overdue(entry: Entry, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Judge checks that exceeded their time limit: they are too slow, never report, or the CI starts no check at all.

    A queued check has not started, however long it waits; GitHub cancels it after a day (docs: usage limits). An absent
    check counts as late only if it reported on the queued head, and no check has started on the present head. A path
    filter would skip the check on both heads.
    """
    if any(report.started for report in verdict.pending):
        return timed_out(entry, verdict.pending_names, policy, verdict.pending)
    given_up = entry.status_since + check_limit(entry, policy, verdict.pending_names) + policy.stall_timeout
    if now >= given_up:
        return timed_out(entry, verdict.pending_names, policy, verdict.pending)
    if verdict.pending:
        return _not_starting(entry, tuple(sorted({report.name for report in verdict.pending})), verdict, policy, now)
    if entry.run.started_checks or entry.head == entry.queued_head:
        return timed_out(entry, verdict.pending_names, policy)
    if entry.run.former_checks is None:
        if facts.former_reports is None:
            return ReadFact(FactKind.FORMER_REPORTS)
        return Save(replace(entry, run=replace(entry.run, former_checks=former_names(facts.former_reports))))
    known = {each.partition(":")[2] for each in entry.run.former_checks or ()}
    if not known & set(verdict.pending_names):
        return timed_out(entry, verdict.pending_names, policy)
    if facts.ci_active_at is not None and now >= facts.ci_active_at + policy.checks.first_report:
        # The CI works, and starts no check on this head.
        return timed_out(entry, verdict.pending_names, policy)
    return _not_starting(entry, verdict.pending_names, verdict, policy, now, ci_active_at=facts.ci_active_at)


def _not_starting(
    entry: Entry,
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
        entry,
        run=replace(
            entry.run,
            polls=entry.run.polls + 1,
            next_poll_at=again,
            pending_checks=verdict.pending_names,
            completed_checks=verdict.completed_names,
        ),
    )
    return Wait(waiting, again, verdict.pending, not_starting=names)


def waits_for_start(entry: Entry, head: str) -> bool:
    """Whether the front still tests this candidate, and no check has started on it."""
    return entry.status is EntryStatus.CHECKING and entry.run.candidate == head and not entry.run.started_checks


def timed_out(entry: Entry, names: tuple[str, ...], policy: Policy, pending: tuple[CheckReport, ...] = ()) -> Dequeue:
    """Dequeue the entry, because these checks did not complete in time; `pending` are those that have started."""
    detail = f"{few(names)} (limit: {_limit_explained(entry, names, policy)})"
    absent = queue_only_names(policy) & (set(names) - {report.name for report in pending})
    if absent:
        detail += f"; no workflow ran {few(tuple(sorted(absent)))} after the label {policy.checks.testing_label}"
    return Dequeue(Reason.CHECKS_TIMED_OUT, detail=detail, checks=pending)


def few(names: tuple[str, ...]) -> str:
    """Join names for a sentence; many are shortened to the first ones and a number."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _limit_explained(entry: Entry, names: Collection[str], policy: Policy) -> str:
    """The time limit of these checks in words, and its origin."""
    limit, measured = check_limit(entry, policy, names), _measured(entry, names)
    words = f"{round(limit / timedelta(minutes=1))} minutes"
    if measured is not None and limit == measured:
        return f"{words}, by how long checks took here before"
    if policy.checks.timeout is not None:
        return f"{words}, as configured"
    return f"{words}, while there is no history to tell how long checks take here"
