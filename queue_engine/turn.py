"""Whose turn it is in a queue: where nobody may go on, everybody who waits is told so once, and once when it is over.

A queue that stands still asks GitHub nothing, but for an ever rarer look at a base that does not pass.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import structlog

from queue_engine import journal, telling
from queue_engine.base_look import look_at_base, look_at_untested
from queue_engine.check_limits import waits_for_start
from queue_engine.engine import Change, Engine
from queue_engine.entering import set_back
from queue_engine.errors import InvariantBroken, StaleVersion
from queue_engine.invariants import check_queue, check_transition
from queue_engine.model import PROCESSING, Entry, EntryStatus, Queue, RedBase, Stall
from queue_engine.notice import NoticeKind
from queue_engine.policy import Policy
from queue_engine.reasons import Reason
from queue_engine.standing import (
    Standstill,
    Told,
    ended,
    is_blocked,
    next_in_turn,
    settles,
    standstills,
    to_tell,
    unblocked_at,
    waits_until,
)

_log = structlog.get_logger("imq.turn")

_STEPS = 20
"""More changes than can come between two looks at a queue; whoever reaches it looks again at once."""


@dataclass(frozen=True, slots=True)
class Turn:
    """The entry to work on, and how many stand in its queue."""

    entry: Entry
    depth: int
    stall: Stall | None = None
    """What is known of a CI that starts no check for it."""


@dataclass(frozen=True, slots=True)
class Rest:
    """There is nothing to work on until then, or until the queue is woken."""

    until: datetime | None


async def turn(engine: Engine, queue_id: int, policy: Policy | None) -> Turn | Rest:
    """Whose turn it is in a leased queue, with all done that has to be done before.

    A queue whose stored state is broken is paused and harms no other. `policy` None: it cannot be read now, so that
    nothing can be said of why the queue stands still, but for what is stored.
    """
    for _ in range(_STEPS):
        async with engine.store.reading() as tx:
            queue = await tx.queues.get(queue_id)
            entries = await tx.entries.of_queue(queue_id)
        if queue is None:
            return Rest(None)
        if policy is None:
            return _unread(queue, entries, engine.clock.now())
        try:
            found = await _next(engine, queue, entries, policy)
        except StaleVersion:
            continue
        if found is not None:
            return found
    return Rest(engine.clock.now())


def _unread(queue: Queue, entries: Sequence[Entry], now: datetime) -> Turn | Rest:
    if not entries or _fault(entries) is not None:
        return Rest(None)
    if queue.paused is not None and not ended(queue.paused, now):
        return Rest(queue.paused.until)
    free = next((entry for entry in entries if not is_blocked(entry, now)), None)
    return Rest(unblocked_at(entries, now)) if free is None else Turn(free, len(entries))


async def _next(engine: Engine, queue: Queue, entries: tuple[Entry, ...], policy: Policy) -> Turn | Rest | None:
    """The turn, or None when something was done about the queue so that it has to be read again."""
    now = engine.clock.now()
    if queue.paused is not None and ended(queue.paused, now):
        await _lift(engine, queue)
        return None
    broken = queue.paused is not None and queue.paused.reason is Reason.INVARIANT_BROKEN
    if not broken and (fault := _fault(entries)) is not None:
        await _pause(engine, queue, entries, fault, policy)
        return None
    if queue.stall is not None and not (entries and waits_for_start(entries[0], queue.stall.head)):
        async with engine.change() as change:
            await change.tx.stalls.note(queue.id, None)
        return None
    halts = standstills(queue, policy, now)
    if await _tell(engine, queue, entries, halts, policy):
        return None
    if queue.red is not None and queue.red.untested and queue.red.look_at <= now:
        await look_at_untested(engine, queue, queue.red, policy)
        return None
    untested_look = queue.red.look_at if queue.red is not None and queue.red.untested else None
    if broken or not entries:
        return Rest(min((at for at in (halts[0].until if halts else None, untested_look) if at), default=None))
    ends = None
    if queue.red is not None and halts and halts[0].reason is Reason.BASE_RED:
        if queue.red.look_at <= now:
            await look_at_base(engine, queue, queue.red, entries, policy)
            return None
        waiting = [entry for entry in entries if not (halts[0].lets(entry) or settles(entry))]
        if await _let_overdue_go(engine, queue.red, waiting, policy, now):
            return None
        ends = min((waits_until(queue.red, entry, policy) for entry in waiting), default=None)
    chosen = next_in_turn(entries, halts, now)
    if chosen is None:
        look_at = halts[0].look_at if halts else None
        due = (look_at, ends, unblocked_at(entries, now), untested_look)
        return Rest(min((at for at in due if at is not None), default=None))
    front = entries[0]
    if chosen.id != front.id and front.status in PROCESSING:
        await _take_turn(engine, front, chosen, policy, len(entries))
        return None
    # Whoever begins stands before all others from then on.
    return Turn(replace(chosen, position=0), len(entries), queue.stall)


def _fault(entries: Sequence[Entry]) -> str | None:
    try:
        check_queue(entries)
    except InvariantBroken as broken:
        return str(broken)
    return None


async def _pause(engine: Engine, queue: Queue, entries: Sequence[Entry], fault: str, policy: Policy) -> None:
    _log.critical("invariant_broken", queue=queue.id, detail=fault)
    async with engine.change() as change:
        change.happenings.append(
            await journal.pause(change.tx, queue, entries, Reason.INVARIANT_BROKEN, fault, policy, change.now)
        )


async def _lift(engine: Engine, queue: Queue) -> None:
    """A pause came to its end."""
    assert queue.paused is not None
    async with engine.change() as change:
        standing = await change.tx.queues.get(queue.id)
        if standing is None or standing.paused != queue.paused:
            return
        await change.tx.queues.resume(queue.id, change.now)
        await _note(change, queue, "resumed", queue.paused.reason, queue.paused.detail, None)


async def _tell(
    engine: Engine, queue: Queue, entries: Sequence[Entry], halts: Sequence[Standstill], policy: Policy
) -> bool:
    """Tell those who wait why nothing goes on, or that it does again; False if they know already."""
    before = Told.read(queue.told)
    if halts:
        stands = halts[0]
        since = engine.clock.now().isoformat() if before is None else before.since
        told = Told.of(stands, entries, since)
        people = to_tell(before, stands, entries)
        if told.same(before) and not people:
            return False
    elif before is None:
        return False
    async with engine.change() as change:
        if halts:
            await change.tx.queues.note_told(queue.id, told.written())
            await telling.tell_standstill(
                change.tx, people, stands.reason, stands.detail, stands.until, policy, change.now
            )
            if not told.same(before) and not stands.noted:
                await _note(change, queue, "paused", stands.reason, stands.detail, stands.until)
            return True
        assert before is not None
        for entry in entries[:1]:
            if (going_on := before.gone_on(entry, change.now)) != entry:
                await change.tx.entries.save(going_on)
        await change.tx.queues.note_told(queue.id, None)
        await telling.tell_resumed(change.tx, entries, policy, change.now)
        if not before.noted:
            await _note(change, queue, "resumed", Reason(before.reason), before.detail, None)
    return True


async def _note(change: Change, queue: Queue, event: str, reason: Reason, detail: str, until: datetime | None) -> None:
    data = {"by": None, "detail": detail, "until": until and until.isoformat()}
    noted = await journal.note(
        change.tx, change.now, event, queue.repository, queue.base_branch, 0, reason=reason, data=data
    )
    change.happenings.append(noted)
    _log.info(event, repository=queue.repository.full_name, base_branch=queue.base_branch, reason=reason.value)


async def _take_turn(engine: Engine, front: Entry, other: Entry, policy: Policy, depth: int) -> None:
    """The front gives its turn to another, and waits in its place; what it was updated to stays its own."""
    back = set_back(front, engine.clock.now())
    check_transition(front.status, back.status)
    async with engine.change() as change:
        await change.tx.entries.save(back)
        saved = await change.tx.entries.get(front.id)
        assert saved is not None
        await journal.tell_progress(change.tx, saved, NoticeKind.QUEUED, policy, change.now, depth=depth)
        await change.record(EntryStatus.PENDING.value, saved, data={"head": saved.head, "yields_to": other.number})
    _log.info("turn_taken", repository=front.repository.full_name, number=front.number, by=other.number)


async def _let_overdue_go(
    engine: Engine, red: RedBase, waiting: Sequence[Entry], policy: Policy, now: datetime
) -> bool:
    """Let those go who have waited for a red base for as long as anybody waits (P5); whether there were any."""
    overdue = [entry for entry in waiting if waits_until(red, entry, policy) <= now]
    if not overdue:
        return False
    async with engine.change() as change:
        # Locks all of them before anything else is written: a handler locks its entry first, and its queue then.
        if not all([await change.tx.entries.keep(entry) for entry in overdue]):
            raise StaleVersion("an entry changed while it waited for a base that passes")
        for entry in overdue:
            change.happenings.append(
                await journal.dismiss(change.tx, entry, Reason.BASE_STAYS_RED, policy, now, detail=red.check)
            )
    _log.info("left", repository=overdue[0].repository.full_name, numbers=[each.number for each in overdue])
    return True
