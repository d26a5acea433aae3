"""Announce which entries got room in their queue, or lost it, and dequeue those that waited too long for room.

A queue has room for as many entries as its depth limit allows, in their order. A dequeue, a priority, a hotfix or a new
limit may move entries across the limit. So each pass compares the positions with the announced states.
"""

from collections.abc import Sequence

import structlog

from queue_engine.domain.blocker import Blocker
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Engine
from queue_engine.effects.queue_depth import announce_joined
from queue_engine.rules.depth import held_until, waits_for_room

_log = structlog.get_logger("imq.front")


async def follow_depth(engine: Engine, entries: Sequence[Entry], blockers: Sequence[Blocker], policy: Policy) -> bool:
    """Announce each entry that moved across the depth limit; if none did, end overdue waits. Whether there was any.

    `blockers` are those of the queue, which the comment of an entry that gets room shows. An unreadable configuration
    has no limit, so that no entry moves then. Raises StaleRecord.
    """
    moved = [each for each in entries if waits_for_room(each.position, policy) != (each.held_since is not None)]
    if not moved or policy.fault is not None:
        return await _end_waits(engine, entries, policy)
    async with engine.change() as change:
        for entry in moved:
            saved = await announce_joined(change, entry, policy, depth=len(entries))
            concerning = [blocker for blocker in blockers if blocker.concerns(saved)]
            if saved.held_since is None and concerning:
                await notices.announce_blockers(change.tx, saved, concerning, policy, change.now)
    return True


async def _end_waits(engine: Engine, entries: Sequence[Entry], policy: Policy) -> bool:
    """Dequeue entries that waited for room until the time limit (P5)."""
    now = engine.clock.now()
    overdue = [each for each in entries if (until := held_until(each, policy)) is not None and until <= now]
    if overdue:
        await dequeue_together(engine, overdue, DequeueReason(Reason.HOLD_TIMED_OUT), policy)
    return bool(overdue)


async def dequeue_together(engine: Engine, entries: Sequence[Entry], why: DequeueReason, policy: Policy) -> None:
    """Dequeue entries of one queue, all for one reason. Raises StaleRecord if one changed since it was read."""
    async with engine.change() as change:
        await record.dequeue_together(change, entries, why, lambda _: policy)
    _log.info("dequeued", repository=entries[0].repository.full_name, numbers=[each.number for each in entries])
