"""Select the front of a queue, and announce its blockers on the entries that they concern, once at start and end.

A blocked queue costs no requests, except for ever rarer polls of a red base.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from queue_engine.domain.blocker import Blocker, BlockerNotice, BlockerNotices
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import InvariantError, StaleRecord
from queue_engine.domain.model import PROCESSING, Entry, EntryStatus, Pause, Queue, RedBase, Stall
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change, Engine
from queue_engine.executor.base_checks import poll_red_base, poll_untested_tip
from queue_engine.executor.queue_depth import dequeue_together, follow_depth
from queue_engine.planner.check_limits import waits_for_start
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
from queue_engine.rules.depth import held_until, with_room
from queue_engine.rules.invariants import check_queue, check_transition
from queue_engine.rules.transitions import preempted

_log = structlog.get_logger("imq.front")

_STEPS = 20
"""More changes than one pass has to make before it selects a front; the queue is due again at once after so many."""


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
class QueueWait:
    """The queue has no entry to work on before `until`, unless an event wakes it."""

    until: datetime | None


async def find_front(
    engine: Engine, queue_id: int, policy: Policy | None, generation: int | None = None
) -> Front | QueueWait:
    """Return the entry of a leased queue to work on, after announcing its blockers and the entries that got room.

    A queue that breaks an invariant is paused, and affects no other. `policy` None: the policy cannot be read now, so
    that only stored blockers are known. `generation` is that of the policy: when configuration or rules have changed
    since, there is no front, and the queue is due at once (P1).
    """
    for _ in range(_STEPS):
        async with engine.store.reading() as tx:
            queue = await tx.queues.get(queue_id)
            entries = await tx.entries.of_queue(queue_id)
        if queue is None:
            return QueueWait(None)
        if generation not in {None, queue.generation}:
            return QueueWait(engine.clock.now())
        if policy is None:
            return _front_without_policy(queue, entries, engine.clock.now())
        try:
            found = await _next(engine, queue, entries, policy)
        except StaleRecord:
            continue
        if found is not None:
            return found
    return QueueWait(engine.clock.now())


def _front_without_policy(queue: Queue, entries: Sequence[Entry], now: datetime) -> Front | QueueWait:
    if not entries or _fault(entries) is not None:
        return QueueWait(None)
    if pauses := [pause for pause in queue.pauses if not pause.has_ended(now)]:
        return QueueWait(_first(pause.until for pause in pauses))
    free = next((entry for entry in entries if not is_blocked(entry, now)), None)
    return QueueWait(unblocked_at(entries, now)) if free is None else Front(free, len(entries))


def _first(instants: Iterable[datetime | None]) -> datetime | None:
    return min((at for at in instants if at is not None), default=None)


async def _next(engine: Engine, queue: Queue, entries: tuple[Entry, ...], policy: Policy) -> Front | QueueWait | None:
    """Return the front or the wait; None if this changed the queue, so that the caller has to read it again."""
    now = engine.clock.now()
    if over := [pause for pause in queue.pauses if pause.has_ended(now)]:
        await _lift(engine, queue, over[0])
        return None
    broken = queue.pause(Reason.INVARIANT_BROKEN) is not None
    if not broken and (fault := _fault(entries)) is not None:
        await _pause(engine, queue, fault)
        return None
    if queue.stall is not None and not (entries and waits_for_start(entries[0], queue.stall.head)):
        async with engine.change() as change:
            await change.tx.stalls.note(queue.id, None)
        return None
    blockers = blockers_of(queue, policy, now)
    if await follow_depth(engine, entries, blockers, policy):
        return None
    hold_ends = _first(held_until(entry, policy) for entry in entries)
    entries = with_room(entries, policy)
    if await _announce(engine, queue, entries, blockers, policy):
        return None
    if queue.red is not None and queue.red.untested and queue.red.next_poll_at <= now:
        await poll_untested_tip(engine, queue, queue.red, policy)
        return None
    untested_poll = queue.red.next_poll_at if queue.red is not None and queue.red.untested else None
    if broken or not entries:
        return QueueWait(_first((*(blocker.until for blocker in blockers), untested_poll, hold_ends)))
    ends = None
    if queue.red is not None and waits_for_base(blockers):
        if queue.red.next_poll_at <= now:
            await poll_red_base(engine, queue, queue.red, entries, policy)
            return None
        waiting = [entry for entry in entries if not (blockers[0].exempts(entry) or in_flight(entry))]
        if await _dequeue_overdue(engine, queue.red, waiting, policy, now):
            return None
        ends = _first(waits_until(queue.red, entry, policy) for entry in waiting)
    chosen = select_front(entries, blockers, now)
    if chosen is None:
        checks = (next_poll_at(blockers), ends, unblocked_at(entries, now), untested_poll, hold_ends)
        return QueueWait(_first(checks))
    front = entries[0]
    if chosen.id != front.id and front.status in PROCESSING:
        await _preempt(engine, front, chosen, policy, len(entries))
        return None
    # The order puts an entry that starts before all others.
    return Front(replace(chosen, position=0), len(entries), queue.stall, hold_ends)


def _fault(entries: Sequence[Entry]) -> str | None:
    try:
        check_queue(entries)
    except InvariantError as broken:
        return str(broken)
    return None


async def _pause(engine: Engine, queue: Queue, fault: str) -> None:
    _log.critical("invariant_broken", queue=queue.id, detail=fault)
    async with engine.change() as change:
        await record.pause(change, queue, Reason.INVARIANT_BROKEN, fault)


async def _lift(engine: Engine, queue: Queue, over: Pause) -> None:
    """Lift a pause that has ended."""
    async with engine.change() as change:
        stored = await change.tx.queues.get(queue.id)
        if stored is None or stored.pause(over.reason) != over:
            return
        await change.tx.pauses.lift(queue.id, over.reason, now=change.now)
        await _record(change, queue, "resumed", over.reason, over.detail, None)


async def _announce(
    engine: Engine, queue: Queue, entries: Sequence[Entry], blockers: Sequence[Blocker], policy: Policy
) -> bool:
    """Announce new blockers, and the end of former ones; False if all are announced already."""
    known = BlockerNotices.from_json(queue.announced)
    before = known or BlockerNotices((), 0)
    outdated = unannounced(known, blockers, entries)
    began, ended = before.began(blockers), before.ended(blockers)
    if not (outdated or began or ended):
        return False
    async with engine.change() as change:
        after = before.followed_by(blockers, entries, change.now)
        await change.tx.queues.note_announced(queue.id, after.to_json() if blockers else None)
        if entries and all(blocker.exempts(entries[0]) for blocker in blockers):
            resumed = before.resumed_entry(entries[0], change.now)
            if resumed != entries[0]:
                await change.tx.entries.save(resumed)
        for entry, concerning in outdated:
            if concerning:
                await notices.announce_blockers(change.tx, entry, concerning, policy, change.now)
            else:
                await notices.announce_resumed(change.tx, entry, policy, change.now, depth=len(entries))
        await _record_changes(change, queue, began, ended)
    return True


async def _record_changes(
    change: Change, queue: Queue, began: Sequence[Blocker], ended: Sequence[BlockerNotice]
) -> None:
    """Record in the timeline which blockers began and ended, except those whose command or job recorded it."""
    changed = {blocker.reason for blocker in began if not blocker.recorded}
    for each in ended:
        if not each.recorded and each.reason not in changed:
            await _record(change, queue, "resumed", each.reason, each.detail, None)
    for blocker in began:
        if not blocker.recorded:
            await _record(change, queue, "paused", blocker.reason, blocker.detail, blocker.until)


async def _record(
    change: Change, queue: Queue, event: str, reason: Reason, detail: str, until: datetime | None
) -> None:
    data = {"by": None, "detail": detail, "until": until and until.isoformat()}
    await change.record(event, queue, reason=reason, data=data)
    _log.info(event, repository=queue.repository.full_name, base_branch=queue.base_branch, reason=reason.value)


async def _preempt(engine: Engine, front: Entry, other: Entry, policy: Policy, depth: int) -> None:
    """Preempt the front by another entry; it waits at its position, and keeps its updated head."""
    back = preempted(front, engine.clock.now())
    check_transition(front.status, back.status)
    async with engine.change() as change:
        await change.tx.entries.save(back)
        saved = await change.tx.entries.get(front.id)
        assert saved is not None
        await notices.announce_progress(change.tx, saved, NoticeKind.QUEUED, policy, change.now, depth=depth)
        await change.record(EntryStatus.PENDING.value, saved, data={"head": saved.head, "yields_to": other.number})
    _log.info("preempted", repository=front.repository.full_name, number=front.number, by=other.number)


async def _dequeue_overdue(
    engine: Engine, red: RedBase, waiting: Sequence[Entry], policy: Policy, now: datetime
) -> bool:
    """Dequeue entries that waited for a red base until their time limit (P5); whether there were any."""
    overdue = [entry for entry in waiting if waits_until(red, entry, policy) <= now]
    if overdue:
        await dequeue_together(engine, overdue, DequeueReason(Reason.BASE_STAYS_RED, red.check), policy)
    return bool(overdue)
