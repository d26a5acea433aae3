"""Announce that an entry joined its queue, or waits until the queue has room for it, or until it is ready."""

from dataclasses import replace
from typing import Any

from queue_engine.domain.failing_check import as_data
from queue_engine.domain.model import Entry
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.domain.unmet_requirement import failing_in
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change
from queue_engine.effects.labels import queued_by
from queue_engine.rules.depth import waits_for_room


async def announce_not_ready(change: Change, entry: Entry, policy: Policy) -> None:
    """Announce what the pull request of an entry lacks, which waits outside the queue for that."""
    tx = change.tx
    await notices.announce_not_ready(tx, entry, policy, change.now)
    labels = sorted(await queued_by(tx, entry.repository.id, entry.number, entry.trusted_labels, policy))
    lacks = [[each.reason.value, each.detail] for each in entry.unmet]
    data: dict[str, Any] = {"by": entry.queued_by, "labels": labels, "lacks": lacks}
    if failing := failing_in(entry.unmet):
        data["failing"] = as_data(failing)
    await change.record("not_ready", entry, reason=entry.unmet[0].reason, delivery=entry.delivery, data=data)


async def announce_joined(change: Change, entry: Entry, policy: Policy, *, depth: int) -> Entry:
    """Announce, by the position among `depth`, that an entry has room or waits for it; returns the stored entry.

    Raises StaleRecord if the entry changed since it was read.
    """
    tx, now = change.tx, change.now
    waits = waits_for_room(entry.position, policy)
    if waits != (entry.held_since is not None):
        entry = await tx.entries.save(replace(entry, held_since=now if waits else None))
    await notices.announce_progress(tx, entry, NoticeKind.QUEUED, policy, now, depth=depth)
    labels = sorted(await queued_by(tx, entry.repository.id, entry.number, entry.trusted_labels, policy))
    if waits:
        await change.record("held", entry, reason=Reason.QUEUE_FULL, delivery=entry.delivery, data={"labels": labels})
        return entry
    data = {"by": entry.queued_by, "head": entry.queued_head, "position": entry.position, "labels": labels}
    delays = await record.delays_caused(tx, entry, now)
    await change.record("queued", entry, delivery=entry.delivery, data=data | delays)
    return entry
