"""The writes that belong together: an entry's change, its row in the timeline, and what people are told of it.

Each function works inside the caller's transaction, so that a state change and the effects that it calls for are
stored together or not at all (P2). What people are told is made in `queue_engine.telling`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queue_engine.facts import CheckReport
from queue_engine.model import Entry, EntryStatus, Pause, Queue, Repository
from queue_engine.outdated_runs import cancel_later
from queue_engine.policy import Policy
from queue_engine.priority import delay
from queue_engine.reasons import REASONS, Outcome, Reason
from queue_engine.standing import Standstill, Told, freeze_by_hand
from queue_engine.store import Transaction
from queue_engine.telling import take_label_off, tell_end, tell_progress, tell_standstill

__all__ = [
    "PLACE_JOB",
    "Happening",
    "call_waiting",
    "delays",
    "dismiss",
    "free_place",
    "note",
    "pause",
    "status_of",
    "take_label_off",
    "tell_end",
    "tell_progress",
]

PLACE_JOB = "place"
"""Kind of the job that lets those who are held in as far as there are places."""


@dataclass(frozen=True, slots=True)
class Happening:
    """One event of the timeline, as subscribers get it after the transaction that stored it."""

    at: datetime
    event: str
    repository: Repository
    base_branch: str
    number: int
    reason: Reason | None = None
    data: dict[str, Any] | None = None


def status_of(reason: Reason) -> EntryStatus:
    """The final status that leaving for this reason means."""
    return EntryStatus.FAILED if REASONS[reason].outcome is Outcome.FAILED else EntryStatus.CANCELLED


async def note(
    tx: Transaction,
    at: datetime,
    event: str,
    repository: Repository,
    base_branch: str,
    number: int,
    *,
    entry_id: str | None = None,
    reason: Reason | None = None,
    delivery: str | None = None,
    data: dict[str, Any] | None = None,
) -> Happening:
    """Append one event to the timeline and return it for publication after the commit."""
    await tx.timeline.append(
        at=at,
        event=event,
        repository_id=repository.id,
        base_branch=base_branch,
        number=number,
        entry_id=entry_id,
        reason=reason,
        delivery=delivery,
        data=data,
    )
    return Happening(at, event, repository, base_branch, number, reason, data)


async def delays(tx: Transaction, entry: Entry, now: datetime) -> dict[str, Any]:
    """Whom an entry's precedence makes wait, and each for about how many seconds longer, as facts of an event."""
    if entry.priority <= 0 and not entry.first:
        return {}
    entries = await tx.entries.of_queue(entry.queue_id)
    turns = await tx.timeline.durations(entry.repository.id, entry.base_branch, EntryStatus.LANDED.value, "front")
    found = delay(entries, entry, turns, now)
    if not found.numbers:
        return {}
    return {"delays": list(found.numbers), "delay": None if found.by is None else round(found.by.total_seconds())}


async def dismiss(
    tx: Transaction,
    entry: Entry,
    reason: Reason,
    policy: Policy,
    now: datetime,
    *,
    detail: str | None = None,
    checks: Sequence[CheckReport] = (),
    people: Sequence[str] = (),
    delivery: str | None = None,
    by: str | None = None,
) -> Happening:
    """The entry leaves its queue without landing. Raises StaleVersion if it changed since it was read.

    `by` is who dequeued it, if a person or a program did.
    """
    await tx.entries.remove(entry)
    await tell_end(tx, entry, policy, now, reason=reason, detail=detail, checks=checks, people=people)
    # Whoever took it out by hand is not to be overruled by automation that sets the label again.
    if REASONS[reason].outcome is Outcome.FAILED or reason is Reason.UNQUEUED:
        await tx.refusals.put(entry.repository.id, entry.number, entry.head, reason, now)
    await cancel_later(tx, entry, policy, now)
    await free_place(tx, entry.queue_id, now)
    return await note(
        tx,
        now,
        status_of(reason).value,
        entry.repository,
        entry.base_branch,
        entry.number,
        entry_id=entry.id,
        reason=reason,
        delivery=delivery,
        data={"head": entry.head, "from": entry.status.value, "checks": [c.name for c in checks], "detail": detail}
        | ({} if by is None else {"dequeued_by": by}),
    )


async def free_place(tx: Transaction, queue_id: int, now: datetime) -> None:
    """An entry left: wake the queue for the next one, and call those who wait for a place."""
    await tx.queues.wake(queue_id, now)
    await call_waiting(tx, queue_id, now)


async def call_waiting(tx: Transaction, queue_id: int, now: datetime) -> None:
    """There may be a place: let those who wait for one knock, in their order."""
    if await tx.held.next(queue_id) is not None:
        await tx.jobs.enqueue(
            kind=PLACE_JOB, request={"queue_id": queue_id}, process_id=f"{PLACE_JOB}:{queue_id}", now=now
        )


async def pause(
    tx: Transaction,
    queue: Queue,
    entries: Sequence[Entry],
    reason: Reason,
    detail: str,
    policy: Policy,
    now: datetime,
) -> Happening:
    """Stop this queue until a maintainer resumes it, and say so to everybody who waits in it."""
    await tx.queues.pause(queue.id, Pause(reason, detail, now), beneath=freeze_by_hand(queue, now))
    await tell_standstill(tx, entries, reason, detail, None, policy, now)
    told = Told.of(Standstill(reason, detail, noted=True), entries)
    await tx.queues.note_told(queue.id, told.written())
    return await note(tx, now, "paused", queue.repository, queue.base_branch, 0, reason=reason, data={"detail": detail})
