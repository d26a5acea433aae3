"""Plan a queue: the change that comes first, its members, and the runs to land, cancel and start. Pure.

A pass stores one change at a time, reads the queue again, and plans again. `queue_engine.planner.trains` chooses the
runs of every queue. Where IMQ tests one entry after the other, one run of one member is active at a time. A queue is
idle if there is no change to make and its front only waits: its pass would store nothing and send no request.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import Enum, auto

from queue_engine.config.model import Policy, TrainRules
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.errors import InvariantError
from queue_engine.domain.facts import BranchRules
from queue_engine.domain.model import PROCESSING, Entry, EntryStatus, Pause, Queue, QueueFront, Stall
from queue_engine.domain.policy import TrainSplit
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import Run
from queue_engine.planner.actions import Facts, Wait
from queue_engine.planner.check_limits import waits_for_start
from queue_engine.planner.decide import decide
from queue_engine.planner.trains.memory import Memory, TrainWait, find_run
from queue_engine.planner.trains.model import Member, Plan, TrainRun, Trains
from queue_engine.planner.trains.plan import failure_ejects, incomplete, plan
from queue_engine.planner.trains.transitions import removed
from queue_engine.rules.blockers import (
    blockers_of,
    in_flight,
    is_blocked,
    next_poll_at,
    unannounced,
    unblocked_at,
    waits_for_base,
    waits_until,
)
from queue_engine.rules.depth import held_until, moved_entries, overdue_entries, waits_for_room, with_room
from queue_engine.rules.landing_order import lands_before
from queue_engine.rules.priority import yields_to, yields_until
from queue_engine.rules.transitions import check_queue

MOST_RUNS = 16
"""How many runs `auto` lets be active at most."""


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
    until: datetime | None = None
    """When to look again at the latest."""


@dataclass(frozen=True, slots=True)
class Members:
    """The entries of a queue with room, front first, of which a run may have some as members."""

    room: tuple[Entry, ...]
    blockers: tuple[Blocker, ...]
    until: datetime | None
    """When to look again if none of them may proceed."""
    hold_ends: datetime | None = None
    """When the first entry that waits for room reaches its time limit."""
    held: frozenset[int] = frozenset()
    """The pull requests that wait for room."""

    def free(self, now: datetime) -> tuple[Entry, ...]:
        """Return those that may proceed: none whose description names another of the queue that may not."""
        found = tuple(
            entry
            for entry in self.room
            if not is_blocked(entry, now) and all(each.exempts(entry) for each in self.blockers)
        )
        queued = self.held.union(each.number for each in self.room)
        while any(each.depends_on for each in found):
            waiting = queued.difference(each.number for each in found)
            kept = tuple(each for each in found if waiting.isdisjoint(lands_before(each)))
            if kept == found:
                break
            found = kept
        return found

    def startable(self, now: datetime) -> dict[int, Entry]:
        """Return those of `free` that may be tested alone: none whose description names another of them."""
        free = {each.number: each for each in self.free(now)}
        return {number: each for number, each in free.items() if free.keys().isdisjoint(lands_before(each))}


@dataclass(frozen=True, slots=True)
class QueueWait:
    """The queue has no entry to work on before `until`, unless an event wakes it."""

    until: datetime | None


def next_members(
    queue: Queue, entries: tuple[Entry, ...], runs: Sequence[Run], policy: Policy, now: datetime
) -> Members | QueueWait | QueueChange:
    """Return the entries with room, the wait if there are none, or the change before, of all entries and runs."""
    change = QueueChange
    if over := [pause for pause in queue.pauses if pause.has_ended(now)]:
        return change(QueueAction.LIFT, pause=over[0])
    if (accepted := accepted_again(queue, entries, runs)) is not None:
        return change(QueueAction.LIFT, pause=accepted)
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
    hold_ends, queued = first(held_until(entry, policy) for entry in entries), entries
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
    found = _members(queue, entries, blockers, policy, now, first((hold_ends, untested_poll)), hold_ends)
    held = frozenset(each.number for each in queued) - {each.number for each in entries}
    return replace(found, held=held) if isinstance(found, Members) and held else found


def _stalls(stall: Stall, entries: Sequence[Entry]) -> bool:
    """Whether no check starts still: on the front, or on any entry."""
    if not entries or stall.never:
        return bool(entries)
    return entries[0].status is EntryStatus.CHECKING and waits_for_start(entries[0].run, stall.head_sha)


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


def next_front(found: Members, now: datetime) -> Front | QueueWait | QueueChange:
    """Return the entry to work on where one is tested after the other, or its preemption; the wait if none may proceed.

    An update or a merge that was requested ends first. Hotfixes do not preempt each other.
    """
    front, free = found.room[0], found.startable(now)
    chosen = front
    if not in_flight(front):
        if not free:
            return QueueWait(found.until)
        made = plan(_one_by_one(front, free), now.timestamp())
        chosen = free[made.start[0].content[0]] if made.start else front
        if made.cancel:
            return QueueChange(QueueAction.PREEMPT, (front, chosen), depth=len(found.room))
    # The order puts an entry that starts before all others.
    front = replace(chosen, position=0) if chosen.position else chosen
    return Front(front, len(found.room), found.hold_ends)


def preempted_by(found: Members, front: Front, policy: Policy, now: datetime) -> Entry | None:
    """Return the entry of a person for which the front's run, of an agent, may end; None without one."""
    startable = found.startable(now)
    return yields_to(front.entry, startable.values(), policy) if front.entry.number in startable else None


def _one_by_one(front: Entry, free: Mapping[int, Entry]) -> Trains:
    """Return the trains of a queue whose runs have one member each, and of which one may be active."""
    begun = front.status in PROCESSING
    # Nothing is preempted where the front may not go on: then all others follow in order.
    goes_on = begun and front.number in free
    members = tuple(
        Member(number, 0.0, preempts=each.hotfix and (each is front or (goes_on and each.preempts)))
        for number, each in free.items()
    )
    runs = (TrainRun(front.number, (front.number,), frozenset({front.number}), 0.0),) if begun else ()
    return Trains(1, 1.0, members, runs, most=1)


def next_runs(memory: Memory, free: Collection[int], now: datetime) -> Plan:
    """Return what to land, eject, cancel or start where runs have several members; `free` may proceed."""
    return plan(visible(memory, ahead_of_tested_alone(memory, free)), now.timestamp())


def filling(memory: Memory, found: Members, free: Collection[int], policy: Policy, now: datetime) -> TrainWait:
    """Return the members that wait until as many wait as a run may test, and until when.

    None waits beside a hotfix, or where no other may join: only exempt ones proceed, the next one is tested alone, or
    the queue has no room.
    """
    trains = visible(memory, ahead_of_tested_alone(memory, free))
    if policy.trains.fill_wait is None or not (fresh := incomplete(trains)):
        return TrainWait()
    waiting = {each.id for each in fresh}
    hurried = any(each.hotfix for each in found.room if each.number in waiting)
    closed = found.blockers or not memory.tested_alone.keys().isdisjoint(free)
    full = not trains.runs and waits_for_room(len(found.room), policy)
    if hurried or closed or full:
        return TrainWait()
    until = datetime.fromtimestamp(min(each.since for each in fresh), UTC) + policy.trains.fill_wait
    return TrainWait(tuple(each.id for each in fresh), until) if until > now else TrainWait()


def for_candidate(policy: Policy, memory: Memory, run: Run, now: datetime) -> Policy:
    """Return the policy for the checks of a run with a branch: whether a failed one runs again.

    Of several members, the tests of parts show a flake as well. A member that failed with others that have passed
    since needs no second failure alone.
    """
    planned = find_run(memory.trains, run.id)
    proved = planned is not None and failure_ejects(memory.trains, planned, now.timestamp())
    again = len(run.members) == 1 and not proved
    return policy if again else replace(policy, checks=replace(policy.checks, reruns=0))


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
    if front.count > 1 and front.entry.share_delay:
        return False
    if not front.others_wait or front.entry.depends_on or queue.announced is not None or queue.red is not None:
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
    found = None if queue.errors else next_members(queue, entries, (), policy, now)
    if isinstance(found, Members):
        front = next_front(found, now)
        if isinstance(front, Front) and preempted_by(found, front, policy, now):
            return None  # How long a usual run takes is stored elsewhere.
        found = _wait_of_front(front, queue.stall, policy, rules, now) if isinstance(front, Front) else front
    if not isinstance(found, QueueWait) or (found.until is not None and found.until <= now):
        return None
    return found


def _wait_of_front(
    front: Front, stall: Stall | None, policy: Policy, rules: BranchRules | None, now: datetime
) -> QueueWait | None:
    """Return until when the front waits, if the pass would leave it as it is."""
    entry = front.entry
    # Whether GitHub has answered a merge request is stored elsewhere; a wait ends the count of GitHub's failures.
    if entry.run.merge_requested_at is not None or entry.run.github_failing_since is not None:
        return None
    if stall is not None and not _stalls(stall, (entry,)):
        return None
    facts = Facts(rules=rules, ci_active_at=stall.ci_active_at if stall else None)
    match decide(entry, facts, policy, now):
        case Wait(run, until, _, ()) if run == entry.run and not entry.run.github_failures:
            return QueueWait(min(until, front.until or until))
    return None


def accepted_again(queue: Queue, entries: Sequence[Entry], runs: Sequence[Run]) -> Pause | None:
    """Return the pause for requests that GitHub refused, if all that it refused has been accepted since, or is gone."""
    pause = queue.pause(Reason.GITHUB_REFUSES)
    is_failing = any(run.github_failing_since for run in (*(each.run for each in entries), *runs))
    over = pause is not None and pause.until is None and not is_failing
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


def follow_queue(memory: Memory, entries: Iterable[Entry], policy: Policy) -> Memory:
    """Return the memory with these entries as members, in the order in which they are to land, and the choices of runs.

    An entry that left, or has another head, is another member: what runs found out about the former one is void.
    """
    ordered = sorted(entries, key=lambda each: (not each.hotfix, each.rank, each.seq))
    heads = {each.number: (each.id, each.head_sha) for each in ordered}
    trains = memory.trains
    for number, head in memory.heads.items():
        if heads.get(number) != head:
            trains = removed(trains, number)
    known = {each.id: each for each in trains.queue}
    queue = tuple(
        replace(
            known.get(each.number, Member(each.number, each.enqueued_at.timestamp())),
            preempts=each.hotfix and each.preempts,
            after=tuple(other.number for other in ordered if other.number in lands_before(each)),
            yields_until=yields_until(each, policy),
        )
        for each in ordered
    )
    conflicts = {
        number: others for number, others in memory.conflicts.items() if heads.get(number) == memory.heads.get(number)
    }
    trains = replace(
        trains,
        queue=queue,
        slots=slots(memory, policy.trains),
        most=policy.trains.max_size,
        fills=policy.trains.fill_wait is not None,
        splits_singly=policy.trains.split is TrainSplit.SINGLE,
    )
    alone = {each.number: memory.tested_alone[each.number] for each in ordered if memory.tests_alone(each)}
    return replace(memory, trains=trains, heads=heads, conflicts={**conflicts}, tested_alone=alone)


def slots(memory: Memory, policy: TrainRules) -> int:
    """Return how many runs may be active: by `auto` one more than CI ran at once before."""
    return min(memory.most_at_once + 1, MOST_RUNS) if policy.runs is None else policy.runs


def visible(memory: Memory, free: Collection[int]) -> Trains:
    """Return the trains as a plan may see them: without members that are blocked, or that conflict with others.

    A member that did not merge onto others is tried again when one of them has landed or left.
    """
    trains = memory.trains
    queued = {each.id for each in trains.queue}
    queue = tuple(
        each
        for each in trains.queue
        if each.id in free and not _conflicts_with_all(memory.conflicts.get(each.id, ()), queued)
    )
    shown = {each.id for each in queue}
    while late := {each.id for each in queue if not shown.issuperset(each.after)}:
        queue = tuple(each for each in queue if each.id not in late)
        shown -= late
    failures = (replace(each, suspects=each.suspects & shown) for each in trains.failures)
    return replace(trains, queue=queue, failures=tuple(each for each in failures if each.suspects))


def ahead_of_tested_alone(memory: Memory, free: Collection[int]) -> frozenset[int]:
    """Return the members that trains may test now: those in runs, and those ahead of the first that is tested alone.

    A member that is tested alone is next once all ahead of it have landed or left, and no run is active.
    """
    trains = memory.trains
    found = {member for run in (*trains.runs, *trains.passed) for member in run.content}
    for each in trains.queue:
        if each.id in memory.tested_alone and each.id in free:
            break
        found.add(each.id)
    return frozenset(each for each in free if each in found and each not in memory.tested_alone)


def _conflicts_with_all(others: Sequence[int], queued: Collection[int]) -> bool:
    return bool(others) and all(other in queued for other in others)
