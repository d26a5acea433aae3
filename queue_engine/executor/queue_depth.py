"""Announce which entries got room in their queue, or lost it, and dequeue those that waited too long for room.

A queue has room for as many entries as its depth limit allows, in their order. A dequeue, a priority, a hotfix or a new
limit may move entries across the limit. So each pass compares the positions with the announced states.
"""

from collections.abc import Sequence

import structlog

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.model import Entry
from queue_engine.effects import notices, record
from queue_engine.effects.context import Engine
from queue_engine.effects.queue_depth import announce_joined
from queue_engine.rules.depth import moved_entries

_log = structlog.get_logger("imq.front")


async def follow_depth(engine: Engine, entries: Sequence[Entry], blockers: Sequence[Blocker], policy: Policy) -> None:
    """Announce each of these entries of a queue that moved across the depth limit.

    `blockers` are those of the queue, which the comment of an entry that gets room shows. Raises StaleRecord.
    """
    async with engine.change() as change:
        for entry in moved_entries(entries, policy):
            saved = await announce_joined(change, entry, policy, depth=len(entries))
            concerning = [blocker for blocker in blockers if blocker.concerns(saved)]
            if saved.held_since is None and concerning:
                await notices.announce_blockers(change.tx, saved, concerning, policy, change.now)


async def dequeue_together(engine: Engine, entries: Sequence[Entry], why: DequeueReason, policy: Policy) -> None:
    """Dequeue entries of one queue, all for one reason. Raises StaleRecord if one changed since it was read."""
    async with engine.change() as change:
        await record.dequeue_together(change, entries, why, lambda _: policy)
    _log.info("dequeued", repository=entries[0].repository.full_name, numbers=[each.number for each in entries])
