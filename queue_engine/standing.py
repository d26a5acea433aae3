"""Why a queue stands still, if it does: a pause, a broken configuration, a freeze, a base that is red. Pure.

A queue may stand still for several reasons at once; who is let through by one may be held by another. What is under
way on GitHub is always let settle first: an update that was asked for, a merge that is in doubt.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from json import dumps, loads
from typing import Self

from queue_engine.checks import judge
from queue_engine.config.freezes import frozen_until
from queue_engine.core.monitor import MonitorEntry
from queue_engine.facts import CheckReport, CheckState, RequiredCheck
from queue_engine.model import PROCESSING, Entry, EntryStatus, Pause, Queue, RedBase
from queue_engine.policy import Policy
from queue_engine.reasons import Reason


@dataclass(frozen=True, slots=True)
class Standstill:
    """The reason, what people read of it beside its sentence, and when it ends by itself, if that is known."""

    reason: Reason
    detail: str
    until: datetime | None = None
    look_at: datetime | None = None
    """When it is looked into again; None: when the queue is woken."""
    noted: bool = False
    """Whoever brought it about has written that into the timeline."""

    def lets(self, entry: Entry) -> bool:
        """Whether this entry may go on all the same."""
        if self.reason is Reason.FROZEN:
            return entry.freeze_exempt
        if self.reason is Reason.CHECKS_NOT_STARTING:
            # The front goes on waiting for its checks, and finds out when one starts.
            return entry.status in PROCESSING
        return self.reason is Reason.BASE_RED and entry.fixes_base


def standstills(queue: Queue, policy: Policy, now: datetime) -> tuple[Standstill, ...]:
    """Everything for which this queue stands still now, what people have to know first."""
    pauses = [pause for pause in (queue.paused, queue.beneath) if pause is not None and not ended(pause, now)]
    found = [Standstill(pause.reason, pause.detail, pause.until, pause.until, noted=True) for pause in pauses]
    if policy.fault is not None:
        found.append(Standstill(Reason.MISCONFIGURED, policy.fault))
    if (frozen := frozen_until(policy, now)) is not None:
        until, why = frozen
        found.append(Standstill(Reason.FROZEN, why, until, until))
    if queue.stall is not None:
        found.append(Standstill(Reason.CHECKS_NOT_STARTING, queue.stall.checks))
    if queue.red is not None and not queue.red.untested:
        found.append(Standstill(Reason.BASE_RED, queue.red.check, look_at=queue.red.look_at))
    return tuple(found)


def standstill(queue: Queue, policy: Policy, now: datetime) -> Standstill | None:
    """What people are told for why this queue stands still; None: it does not."""
    return next(iter(standstills(queue, policy, now)), None)


def freeze_by_hand(queue: Queue, now: datetime) -> Pause | None:
    """The freeze that a person set and that still holds, whether or not a pause stands over it."""
    found = (pause for pause in (queue.paused, queue.beneath) if pause is not None and pause.reason is Reason.FROZEN)
    return next((freeze for freeze in found if not ended(freeze, now)), None)


def ended(pause: Pause, now: datetime) -> bool:
    """Whether a pause is over by itself."""
    return pause.until is not None and pause.until <= now


@dataclass(frozen=True, slots=True)
class Told:
    """What those who wait were told of last, and up to which of them, by the order of joining."""

    reason: str
    detail: str
    until: str | None
    noted: bool
    last: int
    since: str | None = None
    """When the queue began to stand still, for this reason or for one before."""

    @classmethod
    def of(cls, stands: Standstill, entries: Sequence[Entry], since: str | None = None) -> Self:
        """Everybody here has been told of this."""
        until = None if stands.until is None else stands.until.isoformat()
        last = max((entry.seq for entry in entries), default=0)
        return cls(stands.reason.value, stands.detail, until, stands.noted, last, since)

    @classmethod
    def read(cls, stored: str | None) -> "Told | None":
        """As it is stored in a queue."""
        return None if stored is None else cls(**loads(stored))

    def written(self) -> str:
        """As it is stored in a queue."""
        return dumps(asdict(self))

    def same(self, other: "Told | None") -> bool:
        """Whether this is the same standstill, whoever was told of it."""
        return other is not None and replace(self, last=0, since=None) == replace(other, last=0, since=None)

    def gone_on(self, entry: Entry, now: datetime) -> Entry:
        """The front when the queue goes on now: what it had no time for is not held against it.

        Who was let through had its time.
        """
        if Standstill(Reason(self.reason), self.detail).lets(entry):
            return entry
        if (started := entry.started_at) is not None:
            stood = started if self.since is None else datetime.fromisoformat(self.since)
            started += now - max(stood, started)
        return replace(entry, started_at=started, trouble=0, trouble_since=None)


def to_tell(before: Told | None, stands: Standstill, entries: Sequence[Entry]) -> tuple[Entry, ...]:
    """Who is yet to be told that nothing goes on; who is let through has nothing to be told of."""
    known = before.last if before is not None and Told.of(stands, ()).same(before) else 0
    told_all = stands.reason is Reason.CHECKS_NOT_STARTING
    return tuple(entry for entry in entries if entry.seq > known and (told_all or not stands.lets(entry)))


def settles(entry: Entry) -> bool:
    """Whether something is under way that has to end first, whatever stands in the way of the rest."""
    return entry.status is EntryStatus.UPDATING or entry.merge_requested_at is not None


def is_blocked(entry: Entry, now: datetime) -> bool:
    """Whether IMQ lacks a permission to land it, and does not try again yet."""
    return entry.blocked_until is not None and entry.blocked_until > now


def unblocked_at(entries: Iterable[Entry], now: datetime) -> datetime | None:
    """When the first of those that are blocked is tried again; None if none is."""
    return min((e.blocked_until for e in entries if is_blocked(e, now) and e.blocked_until is not None), default=None)


def next_in_turn(entries: Sequence[Entry], halts: Sequence[Standstill], now: datetime) -> Entry | None:
    """Whose turn it is, of a queue in order; None if nobody may go on.

    Who has begun keeps the turn, unless it may not go on and somebody else may, or a hotfix comes that waits for
    nobody. Hotfixes do not interrupt each other.
    """
    front = entries[0]
    if settles(front):
        return front
    may = [entry for entry in entries if not is_blocked(entry, now) and all(halt.lets(entry) for halt in halts)]
    if front.status in PROCESSING and front in may and not front.first:
        return next((entry for entry in may if entry.first and entry.interrupts), front)
    return next(iter(may), None)


def waits_until(red: RedBase, entry: Entry, policy: Policy) -> datetime:
    """Until when this entry waits for its base to be green again, at the longest."""
    return max(red.since, entry.enqueued_at) + policy.hold_timeout


def base_looked_at(
    red: RedBase, tip: str, reports: Sequence[CheckReport], policy: Policy, now: datetime
) -> RedBase | None:
    """What is known of a base after a look at the reports on its tip; None: nothing holds its queue any more.

    A tip on which nothing has reported after a while is not known to be red: checks may run on pull requests only.
    """
    if tip != red.tip:
        red = replace(red, tip=tip, looks=0)
    states = {report.state for report in reports if (report.name, report.app_id) == (red.check, red.app_id)}
    if states == {CheckState.PASSED} or (not states and red.looks > 0):
        return None
    if not states:
        return replace(red, looks=1, look_at=now + policy.first_report)
    return base_unseen(red, policy, now)


def untested_looked_at(
    red: RedBase,
    tip: str,
    required: Collection[RequiredCheck],
    reports: Sequence[CheckReport],
    policy: Policy,
    now: datetime,
) -> RedBase | None:
    """What is known of a tip that a push by hand made, after a look at the reports on it; None: its checks passed.

    One that fails makes the base a red one. Where nothing is required, later workflows get their time to appear.
    """
    if tip != red.tip:
        red = replace(red, tip=tip, looks=0)
    verdict = judge(required, reports, policy.ignored_checks)
    if verdict.state is CheckState.FAILED:
        first = verdict.failed[0]
        return RedBase(first.name, tip, now, 0, now, first.app_id)
    if verdict.state is CheckState.PASSED:
        believed = now if required else (verdict.last_completed or now) + policy.first_report
        return None if now >= believed else replace(red, looks=red.looks + 1, look_at=believed)
    return base_unseen(red, policy, now)


def failed_jobs(red: RedBase, tip: str, reports: Sequence[CheckReport], policy: Policy) -> tuple[CheckReport, ...]:
    """The reports of GitHub Actions by which the base is red, if they were not run again on this tip yet."""
    if red.rerun == tip or red.untested or not policy.check_reruns:
        return ()
    of_check = [r for r in reports if (r.name, r.app_id) == (red.check, red.app_id)]
    if any(r.state is CheckState.PENDING for r in of_check):
        return ()
    return tuple(r for r in of_check if r.state is CheckState.FAILED and r.by_actions)


def base_unseen(red: RedBase, policy: Policy, now: datetime) -> RedBase:
    """The same after a look that told nothing new: the next one is later than the last."""
    after = MonitorEntry(now, red.looks).answered(policy.check_look, now)
    return replace(red, looks=after.looks, look_at=after.next_at)
