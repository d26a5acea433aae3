"""Find what blocks a queue: pauses, a broken configuration, freezes, checks that do not start, a red base. Pure.

A queue may have several blockers at once, each in a slot of its own. An entry proceeds only if all of them exempt it.
A requested update, or a merge whose answer is lost, is completed first, whatever blocks the queue. The queue stores
which blockers were announced to which entries, so that each is announced once.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import datetime

from queue_engine.config.freezes import frozen_until
from queue_engine.config.model import Policy
from queue_engine.core.timing.backoff import MonitorEntry
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.domain.model import Entry, EntryStatus, Queue, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.rules.checks import failing_checks, judge


def blockers_of(queue: Queue, policy: Policy, now: datetime) -> tuple[Blocker, ...]:
    """Return all blockers of the queue, the most important first."""
    found = [
        Blocker(pause.reason, pause.detail, pause.until, pause.until, recorded=True, since=pause.since, by=pause.by)
        for pause in queue.pauses
        if not pause.has_ended(now)
    ]
    if policy.fault is not None:
        found.append(Blocker(Reason.MISCONFIGURED, policy.fault))
    if (frozen := frozen_until(policy.freeze.windows, now)) is not None:
        until, why = frozen
        found.append(Blocker(Reason.FROZEN, why, until, until))
    if (stall := queue.stall) is not None:
        reason = Reason.CHECK_NEVER_REPORTED if stall.never else Reason.CHECKS_NOT_STARTING
        found.append(Blocker(reason, stall.checks, next_poll_at=stall.next_poll_at, since=stall.since))
    if (red := queue.red) is not None and not red.untested:
        found.append(Blocker(Reason.BASE_RED, red.check, next_poll_at=red.next_poll_at, since=red.since))
    if red is not None and red.untested and red.check:
        found.append(Blocker(Reason.TIP_UNTESTED, red.check, since=red.since))
    return tuple(found)


def waits_for_base(blockers: Sequence[Blocker]) -> bool:
    """Whether a red base is the only blocker of the queue: IMQ does not poll the base under another blocker."""
    return [blocker.reason for blocker in blockers] == [Reason.BASE_RED]


def next_poll_at(blockers: Sequence[Blocker]) -> datetime | None:
    """When to look at the blockers again; None if only an event can change them."""
    alone = waits_for_base(blockers)
    polls = (blocker.next_poll_at for blocker in blockers if alone or blocker.reason is not Reason.BASE_RED)
    return min((at for at in polls if at is not None), default=None)


def unannounced(
    before: BlockerNotices | None, blockers: Sequence[Blocker], entries: Sequence[Entry]
) -> tuple[tuple[Entry, tuple[Blocker, ...]], ...]:
    """Return each entry whose notice is outdated, with the blockers that concern it now; none if it may proceed.

    When the last blocker ends, all entries are returned: a former blocker may have concerned any of them.
    """
    if before is None:
        concerned = ((entry, _concerning(entry, blockers)) for entry in entries)
        return tuple((entry, concerning) for entry, concerning in concerned if concerning)
    now = [(entry, _concerning(entry, blockers)) for entry in entries]
    return tuple((entry, each) for entry, each in now if not blockers or not _same(before.concerning(entry), each))


def _concerning(entry: Entry, blockers: Sequence[Blocker]) -> tuple[Blocker, ...]:
    return tuple(blocker for blocker in blockers if blocker.concerns(entry))


def _same(some: Sequence[Blocker], others: Sequence[Blocker]) -> bool:
    """Whether both make the same notice."""
    return [replace(each, next_poll_at=None) for each in some] == [replace(each, next_poll_at=None) for each in others]


def in_flight(entry: Entry) -> bool:
    """Whether an update or a merge was requested, which has to end first, whatever blocks the queue."""
    return entry.status is EntryStatus.UPDATING or entry.run.merge_requested_at is not None


def is_blocked(entry: Entry, now: datetime) -> bool:
    """Whether IMQ lacks a permission to land the entry, and its next try is not due."""
    return entry.blocked_until is not None and entry.blocked_until > now


def unblocked_at(entries: Iterable[Entry], now: datetime) -> datetime | None:
    """When the first blocked entry is tried again; None if none is blocked."""
    return min((e.blocked_until for e in entries if is_blocked(e, now) and e.blocked_until is not None), default=None)


def waits_until(red: RedBase, entry: Entry, policy: Policy) -> datetime:
    """When this entry is dequeued if its base stays red."""
    return max(red.since, entry.enqueued_at) + policy.timeouts.hold


def base_checked(
    red: RedBase, tip: str, reports: Sequence[CheckReport], policy: Policy, now: datetime
) -> RedBase | None:
    """Return the state of a red base after a poll of its tip's reports; None if it holds its queue no longer.

    A tip without any report for a while is not red: checks may run on pull requests only. A broken workflow file
    holds its queue until the base moves, or a rerun has jobs, which the caller reads.
    """
    if red.is_workflow:
        return None if tip != red.tip or not red.polls else base_unread(red, policy, now)
    if tip != red.tip:
        red = replace(red, tip=tip, polls=0)
    states = {report.state for report in reports if (report.name, report.app_id) == (red.check, red.app_id)}
    if states == {CheckState.PASSED} or (not states and red.polls > 0):
        return None
    if not states:
        return replace(red, polls=1, next_poll_at=now + policy.checks.first_report)
    failed = [r for r in reports if (r.name, r.app_id) == (red.check, red.app_id) and r.state is CheckState.FAILED]
    return base_unread(replace(red, failing=failing_checks(failed, reports) or red.failing), policy, now)


def untested_checked(
    red: RedBase,
    tip: str,
    required: Collection[RequiredCheck],
    reports: Sequence[CheckReport],
    policy: Policy,
    now: datetime,
) -> RedBase | None:
    """Return the state of an untested tip after a poll of its reports; None if its checks passed.

    A failed check makes the base red. Where no check is required, later workflows get time to appear. Where no check
    reports on the base at all, the next run tests its tip, with the members of that run on top.
    """
    if tip != red.tip:
        red = replace(red, tip=tip, polls=0)
    verdict = judge(required, reports, policy.checks.ignored)
    if verdict.state is CheckState.FAILED:
        first = verdict.failed[0]
        return RedBase(first.name, tip, now, 0, now, first.app_id, failing=failing_checks(verdict.failed, reports))
    if verdict.state is CheckState.PASSED:
        believed = now if required else (verdict.last_completed or now) + policy.checks.first_report
        return None if now >= believed else replace(red, polls=red.polls + 1, next_poll_at=believed)
    if red.check and not verdict.reported and now - red.since >= policy.checks.first_report:
        return None
    return base_unread(red, policy, now)


def failed_jobs(red: RedBase, tip: str, reports: Sequence[CheckReport], policy: Policy) -> tuple[CheckReport, ...]:
    """Return the failed jobs of GitHub Actions that make the base red, if IMQ has not rerun them on this tip."""
    if red.rerun == tip or red.untested or not policy.checks.reruns:
        return ()
    of_check = [r for r in reports if (r.name, r.app_id) == (red.check, red.app_id)]
    if any(r.state is CheckState.PENDING for r in of_check):
        return ()
    return tuple(r for r in of_check if r.state is CheckState.FAILED and r.by_actions)


def base_unread(red: RedBase, policy: Policy, now: datetime) -> RedBase:
    """Count a poll that found no change; the next interval is longer."""
    after = MonitorEntry(now, red.polls).answered(policy.check_poll, now)
    return replace(red, polls=after.polls, next_poll_at=after.next_at)
