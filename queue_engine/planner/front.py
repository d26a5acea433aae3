"""Select the front of a queue, or name the change that its pass has to make before. Pure.

A pass stores one change at a time, reads the queue again, and selects again. A queue is idle if there is no change to
make and its front only waits: its pass would store nothing and send no request.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import Enum, auto
from itertools import chain

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.errors import InvariantError
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.model import PROCESSING, Entry, EntryStatus, Pause, Queue, QueueFront, Stall
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Facts, Wait
from queue_engine.planner.check_limits import waits_for_start
from queue_engine.planner.decide import decide
from queue_engine.rules.blockers import (
    blockers_of,
    in_flight,
    is_blocked,
    next_poll_at,
    select_front,
    unannounced,
    unblocked_at,
    waits_for_base,
    waits_until,
)
from queue_engine.rules.depth import held_until, moved_entries, overdue_entries, waits_for_room, with_room
from queue_engine.rules.invariants import check_queue


class QueueAction(Enum):
    """What a pass has to store, or to read from GitHub, before the queue has a front."""

    LIFT = auto()
    """Lift `pause`, which has ended."""
    PAUSE = auto()
    """Pause the queue: it breaks an invariant, which `detail` names."""
    END_STALL = auto()
    """Forget that no check starts: one has started, or the queue has another front."""
    FOLLOW_DEPTH = auto()
    """Announce which of `entries` moved across the depth limit."""
    END_HOLD = auto()
    """Dequeue `entries`, which waited for room until the time limit (P5)."""
    ANNOUNCE = auto()
    """Announce `blockers`, or the end of former ones, to `entries`."""
    POLL_TIP = auto()
    """Read the checks of an untested tip."""
    POLL_MISSING = auto()
    """Read whether required checks that no commit had are required still, and absent still."""
    POLL_BASE = auto()
    """Read whether a red base passes now."""
    DEQUEUE = auto()
    """Dequeue `entries`, which waited for a red base until the time limit (P5)."""
    PREEMPT = auto()
    """Preempt the first of `entries` by the second."""


@dataclass(frozen=True, slots=True)
class QueueChange:
    """The next change of a queue before it has a front. `depth` is how many entries have room."""

    action: QueueAction
    entries: tuple[Entry, ...] = ()
    blockers: tuple[Blocker, ...] = ()
    pause: Pause | None = None
    detail: str = ""
    depth: int = 0
    reason: Reason = Reason.BASE_STAYS_RED
    """Why entries leave, if any do."""


@dataclass(frozen=True, slots=True)
class Front:
    """The entry to work on, and how many entries of its queue have room."""

    entry: Entry
    depth: int
    stall: Stall | None = None
    """The queue's blocker for checks that do not start, if it has one."""
    hold_ends: datetime | None = None
    """When the first entry that waits for room reaches its time limit."""


@dataclass(frozen=True, slots=True)
class Members:
    """The entries of a queue with room, front first, of which a run may have some as members."""

    room: tuple[Entry, ...]
    blockers: tuple[Blocker, ...]
    until: datetime | None
    """When to look again if none of them may proceed."""
    hold_ends: datetime | None = None
    """When the first entry that waits for room reaches its time limit."""

    def free(self, now: datetime) -> tuple[Entry, ...]:
        """Return those that may proceed."""
        return tuple(
            entry
            for entry in self.room
            if not is_blocked(entry, now) and all(each.exempts(entry) for each in self.blockers)
        )


@dataclass(frozen=True, slots=True)
class QueueWait:
    """The queue has no entry to work on before `until`, unless an event wakes it."""

    until: datetime | None


def next_front(
    queue: Queue, entries: tuple[Entry, ...], policy: Policy, now: datetime
) -> Front | QueueWait | QueueChange:
    """Return the front of a queue, the wait if no entry may proceed, or the change to make before.

    `entries` are all of the queue, in order.
    """
    found = next_members(queue, entries, policy, now)
    if not isinstance(found, Members):
        return found
    chosen = select_front(found.room, found.blockers, now)
    if chosen is None:
        return QueueWait(found.until)
    front = found.room[0]
    if chosen.id != front.id and front.status in PROCESSING:
        return QueueChange(QueueAction.PREEMPT, (front, chosen), depth=len(found.room))
    # The order puts an entry that starts before all others.
    return Front(replace(chosen, position=0), len(found.room), queue.stall, found.hold_ends)


def next_members(
    queue: Queue, entries: tuple[Entry, ...], policy: Policy, now: datetime
) -> Members | QueueWait | QueueChange:
    """Return the entries with room, the wait if there are none, or the change to make before."""
    change = QueueChange
    if over := [pause for pause in queue.pauses if pause.has_ended(now)]:
        return change(QueueAction.LIFT, pause=over[0])
    if not queue.in_trains and (over_now := accepted_again(queue, entries)) is not None:
        return change(QueueAction.LIFT, pause=over_now)
    broken = queue.pause(Reason.INVARIANT_BROKEN) is not None
    if not broken and (fault := fault_of(entries)) is not None:
        return change(QueueAction.PAUSE, detail=fault)
    if queue.stall is not None and not _stalls(queue.stall, entries):
        return change(QueueAction.END_STALL)
    blockers = blockers_of(queue, policy, now)
    if moved_entries(entries, policy):
        return change(QueueAction.FOLLOW_DEPTH, entries, blockers)
    if overdue := overdue_entries(entries, policy, now):
        return change(QueueAction.END_HOLD, overdue)
    hold_ends = first(held_until(entry, policy) for entry in entries)
    entries = with_room(entries, policy)
    if _announces(queue, entries, blockers):
        return change(QueueAction.ANNOUNCE, entries, blockers)
    if queue.stall is not None and queue.stall.next_poll_at is not None and queue.stall.next_poll_at <= now:
        return change(QueueAction.POLL_MISSING, entries)
    untested_poll = queue.red.next_poll_at if queue.red is not None and queue.red.untested else None
    if untested_poll is not None and untested_poll <= now:
        return change(QueueAction.POLL_TIP)
    if broken or not entries:
        return QueueWait(first((*(blocker.until for blocker in blockers), untested_poll, hold_ends)))
    return _members(queue, entries, blockers, policy, now, first((hold_ends, untested_poll)), hold_ends)


def _stalls(stall: Stall, entries: Sequence[Entry]) -> bool:
    """Whether no check starts still: on the front, or on any entry."""
    tested = [each.run for each in entries[:1] if each.status is EntryStatus.CHECKING]
    return bool(entries) and (stall.never or any(waits_for_start(run, stall.head) for run in tested))


def _members(
    queue: Queue,
    entries: tuple[Entry, ...],
    blockers: tuple[Blocker, ...],
    policy: Policy,
    now: datetime,
    until: datetime | None,
    hold_ends: datetime | None,
) -> Members | QueueChange:
    """Return the entries with room, after everything about the whole queue is announced."""
    ends = None
    if queue.stall is not None and queue.stall.never and not any(in_flight(entry) for entry in entries):
        since, limit = queue.stall.since, policy.timeouts.hold
        if overdue := tuple(each for each in entries if max(since, each.enqueued_at) + limit <= now):
            return QueueChange(QueueAction.DEQUEUE, overdue, detail=queue.stall.checks, reason=Reason.CHECKS_TIMED_OUT)
        ends = first(max(since, each.enqueued_at) + limit for each in entries)
    if queue.red is not None and waits_for_base(blockers):
        if queue.red.next_poll_at <= now:
            return QueueChange(QueueAction.POLL_BASE, entries)
        waiting = [entry for entry in entries if not (blockers[0].exempts(entry) or in_flight(entry))]
        if overdue := tuple(entry for entry in waiting if waits_until(queue.red, entry, policy) <= now):
            return QueueChange(QueueAction.DEQUEUE, overdue, detail=queue.red.check)
        ends = first(waits_until(queue.red, entry, policy) for entry in waiting)
    until = first((next_poll_at(blockers), ends, unblocked_at(entries, now), until))
    return Members(entries, blockers, until, hold_ends)


def front_without_policy(queue: Queue, entries: Sequence[Entry], now: datetime) -> Front | QueueWait:
    """Return the front, or the wait, while the policy cannot be read: only stored blockers are known."""
    if not entries or fault_of(entries) is not None:
        return QueueWait(None)
    if pauses := [pause for pause in queue.pauses if not pause.has_ended(now)]:
        return QueueWait(first(pause.until for pause in pauses))
    free = next((entry for entry in entries if not is_blocked(entry, now)), None)
    return QueueWait(unblocked_at(entries, now)) if free is None else Front(free, len(entries))


def front_decides(queue: Queue, front: QueueFront, policy: Policy, now: datetime) -> bool:
    """Whether `wait_of` finds the same with this front alone as with all entries of the queue."""
    if not front.others_wait or queue.announced is not None or queue.red is not None:
        return False
    has_room = not waits_for_room(front.count - 1, policy)
    return has_room and not is_blocked(front.entry, now) and not blockers_of(queue, policy, now)


def wait_of(
    queue: Queue, entries: tuple[Entry, ...], policy: Policy, rules: BranchRules | None, now: datetime
) -> QueueWait | None:
    """Return the wait of an idle queue; None if its pass would store something, or send a request.

    The pass of an idle queue would find the same wait. `rules` are those of the base branch, None if they are not
    cached. A queue of which stored values do not show that it is idle counts as busy.
    """
    found = None if queue.errors else next_front(queue, entries, policy, now)
    if isinstance(found, Front):
        found = _wait_of_front(found, policy, rules, now)
    if not isinstance(found, QueueWait) or (found.until is not None and found.until <= now):
        return None
    return found


def _wait_of_front(front: Front, policy: Policy, rules: BranchRules | None, now: datetime) -> QueueWait | None:
    """Return until when the front waits, if the pass would leave it as it is."""
    entry, stall = front.entry, front.stall
    # Whether GitHub has answered a merge request is stored elsewhere; a wait ends the count of GitHub's failures.
    if entry.run.merge_requested_at is not None or entry.run.github_failing_since is not None:
        return None
    if stall is not None and not _stalls(stall, (entry,)):
        return None
    facts = Facts(rules=rules, ci_active_at=stall.ci_active_at if stall else None)
    match decide(entry, facts, policy, now):
        case Wait(run, until, _, ()) if run == entry.run and not entry.run.github_failures:
            return QueueWait(min(until, front.hold_ends or until))
    return None


def accepted_again(queue: Queue, entries: Sequence[Entry], runs: Sequence[Run] = ()) -> Pause | None:
    """Return the pause for requests that GitHub refused, if all that it refused has been accepted since, or is gone."""
    pause = queue.pause(Reason.GITHUB_REFUSES)
    failing = (each.run.github_failing_since for each in entries), (each.github_failing_since for each in runs)
    over = pause is not None and pause.until is None and not any(chain.from_iterable(failing))
    return pause if over else None


def fault_of(entries: Sequence[Entry]) -> str | None:
    """Return which invariant these entries of a queue break, if any."""
    try:
        check_queue(entries)
    except InvariantError as broken:
        return str(broken)
    return None


def first(instants: Iterable[datetime | None]) -> datetime | None:
    """Return the first of these instants; None if there is none."""
    return min((at for at in instants if at is not None), default=None)


def _announces(queue: Queue, entries: Sequence[Entry], blockers: Sequence[Blocker]) -> bool:
    """Whether blockers, or the end of former ones, are still to be announced."""
    known = BlockerNotices.from_json(queue.announced)
    if known is None and not blockers:
        return False
    before = known or BlockerNotices((), 0)
    return bool(unannounced(known, blockers, entries) or before.began(blockers) or before.ended(blockers))
