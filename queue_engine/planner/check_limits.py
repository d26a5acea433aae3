"""Limit how long checks may take, counted from their start where it shows. Pure.

GitHub's `started_at` does not tell when a job of Actions began: people have seen it renewed at the start
(actions/runner #1881) and kept from when the job was queued (strands-labs/robots #2509). So what counts is when a look
first saw the check running.
"""

from dataclasses import replace
from datetime import datetime, timedelta

from queue_engine.domain.facts import CheckReport
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Action, Dequeue, FactKind, Facts, ReadFact, Save, Wait
from queue_engine.rules.checks import CommitChecks, former_names

_NAMED = 10
"""Checks that an explanation names."""


def check_limit(entry: Entry, policy: Policy) -> timedelta:
    """How long the required checks of its head may take."""
    if policy.check_timeout is not None:
        return policy.check_timeout
    return (
        policy.fallback_check_timeout if entry.run.check_seconds is None else timedelta(seconds=entry.run.check_seconds)
    )


def check_deadline(entry: Entry, policy: Policy) -> datetime:
    """Until when the checks of its head may take: each check that starts begins their time again."""
    return max(entry.status_since, entry.run.checks_started_at or entry.status_since) + check_limit(entry, policy)


def with_started(entry: Entry, verdict: CommitChecks, now: datetime) -> Entry:
    """The entry after a look at its checks: which of them have started, and when the last of these did."""
    running = tuple(report for report in verdict.pending if report.started)
    new = {*verdict.ended, *(report.name for report in running)} - set(entry.run.started_checks)
    if not new:
        return entry
    at = now
    if not new & {report.name for report in running}:
        at = min(verdict.last_completed or now, now)
    elif entry.run.polls == 0 and not any(report.by_actions for report in running):
        # The first look at this head, and Apps that say themselves when they began.
        reported = (report.started_at for report in running if report.started_at is not None)
        at = min(max(reported, default=entry.status_since), now)
    started = tuple(sorted({*entry.run.started_checks, *new}))
    return replace(entry, run=replace(entry.run, started_checks=started, checks_started_at=max(at, entry.status_since)))


def overdue(entry: Entry, verdict: CommitChecks, facts: Facts, policy: Policy, now: datetime) -> Action:
    """Checks have not ended in their time: they are too slow, never come, or the CI starts nothing at all.

    A queued check has not started, whatever the time; GitHub itself cancels it after a day (docs: usage limits). One
    that is absent is believed to be late only if it reported on the head that was queued, and nothing has started on
    this one: a path filter skips both heads alike.
    """
    if any(report.started for report in verdict.pending):
        return timed_out(entry, verdict.awaited, policy, verdict.pending)
    given_up = entry.status_since + check_limit(entry, policy) + policy.stall_timeout
    if now >= given_up:
        return timed_out(entry, verdict.awaited, policy, verdict.pending)
    if verdict.pending:
        return _not_starting(entry, tuple(sorted({report.name for report in verdict.pending})), verdict, policy, now)
    if entry.run.started_checks or entry.head == entry.queued_head:
        return timed_out(entry, verdict.awaited, policy)
    if entry.run.former_checks is None:
        if facts.former_reports is None:
            return ReadFact(FactKind.FORMER_REPORTS)
        return Save(replace(entry, run=replace(entry.run, former_checks=former_names(facts.former_reports))))
    known = {each.partition(":")[2] for each in entry.run.former_checks or ()}
    if not known & set(verdict.awaited):
        return timed_out(entry, verdict.awaited, policy)
    if facts.ci_seen_at is not None and now >= facts.ci_seen_at + policy.first_report:
        # The CI is up, and starts nothing on this head.
        return timed_out(entry, verdict.awaited, policy)
    return _not_starting(entry, verdict.awaited, verdict, policy, now, ci_seen_at=facts.ci_seen_at)


def _not_starting(
    entry: Entry,
    names: tuple[str, ...],
    verdict: CommitChecks,
    policy: Policy,
    now: datetime,
    *,
    ci_seen_at: datetime | None = None,
) -> Wait:
    """Wait for a check to start: its report tells, and a look now and then in case that its webhook was lost."""
    again = now + policy.check_look.base
    if ci_seen_at is not None:
        again = min(again, ci_seen_at + policy.first_report)
    waiting = replace(
        entry,
        run=replace(
            entry.run,
            polls=entry.run.polls + 1,
            next_poll_at=again,
            pending_checks=verdict.awaited,
            completed_checks=verdict.ended,
        ),
    )
    return Wait(waiting, again, verdict.pending, not_starting=names)


def waits_for_start(entry: Entry, head: str) -> bool:
    """Whether this front is still the one, with this candidate, for which no check has started."""
    return entry.status is EntryStatus.CHECKING and entry.run.candidate == head and not entry.run.started_checks


def timed_out(entry: Entry, awaited: tuple[str, ...], policy: Policy, pending: tuple[CheckReport, ...] = ()) -> Dequeue:
    """It leaves: these checks did not end within their time; `pending` are those that have begun."""
    detail = f"{few(awaited)} (limit: {_limit_explained(entry, policy)})"
    return Dequeue(Reason.CHECKS_TIMED_OUT, detail=detail, checks=pending)


def few(names: tuple[str, ...]) -> str:
    """Names for a sentence that has to stay readable."""
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def _limit_explained(entry: Entry, policy: Policy) -> str:
    """The limit of the checks' time, in words, and where it comes from."""
    limit = f"{round(check_limit(entry, policy) / timedelta(minutes=1))} minutes"
    if policy.check_timeout is not None:
        return f"{limit}, as configured"
    if entry.run.check_seconds is not None:
        return f"{limit}, by how long checks took here before"
    return f"{limit}, while there is no history to tell how long checks take here"
