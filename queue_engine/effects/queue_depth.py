"""Announce that an entry joined its queue, or waits until the queue has room for it, or until it is ready."""

from dataclasses import replace
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.facts import as_data
from queue_engine.domain.model import Entry, EntryStatus, UnmetRequirement, failing_in
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change
from queue_engine.effects.labels import queued_by, remove_testing_label
from queue_engine.effects.notices import has_check_run, want_check_run
from queue_engine.effects.record import with_dismissal
from queue_engine.effects.stale_runs import cancel_later
from queue_engine.rules.depth import waits_for_room
from queue_engine.rules.transitions import check_transition, preempted


async def announce_not_ready(change: Change, entry: Entry, policy: Policy) -> None:
    """Announce what the pull request of an entry lacks, which waits outside the queue for that."""
    tx = change.tx
    await notices.announce_not_ready(tx, entry, policy, change.now)
    labels = sorted(await queued_by(tx, entry.repository.id, entry.number, entry.trusted_labels, policy))
    unmet = [[each.reason.value, each.detail] for each in entry.unmet]
    data: dict[str, Any] = {"by": entry.queued_by, "labels": labels, "unmet": unmet}
    if failing := failing_in(entry.unmet):
        data["failing"] = as_data(failing)
    await change.record("not_ready", entry, reason=entry.unmet[0].reason, delivery=entry.delivery, data=data)


async def set_aside(change: Change, entry: Entry, lacks: UnmetRequirement, policy: Policy) -> Entry:
    """Have an entry wait outside its queue for what it lacks since IMQ updated it; it keeps its arrival and its head.

    The caller has proved the head. Raises StaleRecord.
    """
    tx, now = change.tx, change.now
    lacks = await with_dismissal(change, entry, lacks)
    if entry.status is not EntryStatus.PENDING:
        check_transition(entry.status, EntryStatus.PENDING)
    waiting = replace(
        preempted(entry, now), unmet=(lacks,), read_at=now, head_proved=True, held_since=None, blocked_since=None
    )
    saved = await tx.entries.save(replace(waiting, blocked_until=None))
    await remove_testing_label(tx, entry, policy, now)
    await cancel_later(tx, entry, policy, now)
    await announce_not_ready(change, saved, policy)
    if await has_check_run(tx, saved):
        notice = await notices.progress_notice(tx, saved, NoticeKind.NOT_READY, policy, now, depth=0)
        await want_check_run(tx, saved, notice, policy, now)
    await tx.queues.wake(entry.queue_id, now)
    return saved


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
