"""The writes that belong together: an entry's change, its row in the timeline, and what people are told of it.

Each function works inside the caller's transaction, so that a state change and the effects that it calls for are
stored together or not at all (P2).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from queue_engine.facts import CheckReport, CheckState
from queue_engine.model import Entry, EntryStatus, Pause, Queue, Repository
from queue_engine.notice import Notice, NoticeKind
from queue_engine.policy import Policy
from queue_engine.reasons import REASONS, Move, Outcome, Reason
from queue_engine.store import Transaction
from queue_engine.store.outbox import LetterKind

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


_CHECKED = frozenset({EntryStatus.CHECKING, EntryStatus.READY})

_NOTICE_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
}


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


async def tell_progress(
    tx: Transaction,
    entry: Entry,
    kind: NoticeKind,
    policy: Policy,
    now: datetime,
    *,
    depth: int,
    checks: Sequence[CheckReport] = (),
    check_run: bool = True,
) -> None:
    """Bring comment and `check_run` up to a passing state, after the courtesy pause that joins quick changes."""
    notice = Notice(
        kind=kind,
        number=entry.number,
        base_branch=entry.base_branch,
        head_sha=entry.head,
        at=now,
        position=entry.position,
        depth=depth,
        checks=tuple(checks) or _awaited(entry),
        enqueued_at=entry.enqueued_at,
        started_at=entry.started_at,
        queued_by=entry.queued_by,
        trigger_label=policy.trigger_label,
    )
    due = now + policy.courtesy
    await tx.outbox.want(LetterKind.COMMENT, entry.repository, entry.number, due=due, notice=notice)
    if check_run and entry.status in _CHECKED:
        await tx.outbox.want(LetterKind.CHECK_RUN, entry.repository, entry.number, due=due, notice=notice)


async def tell_end(
    tx: Transaction,
    entry: Entry,
    policy: Policy,
    now: datetime,
    *,
    reason: Reason | None,
    detail: str | None = None,
    checks: Sequence[CheckReport] = (),
    people: Sequence[str] = (),
    landed_sha: str | None = None,
) -> None:
    """Finish comment, check run and label for an entry that left; `reason` None means that it landed."""
    notice = Notice(
        kind=NoticeKind.LANDED if reason is None else _NOTICE_OF_OUTCOME[REASONS[reason].outcome],
        number=entry.number,
        base_branch=entry.base_branch,
        head_sha=entry.head,
        at=now,
        people=tuple(people) if reason is not None and REASONS[reason].move is Move.AUTHOR else (),
        reason=reason,
        detail=detail,
        checks=tuple(checks),
        landed_sha=landed_sha,
        enqueued_at=entry.enqueued_at,
        started_at=entry.started_at,
        queued_by=entry.queued_by,
        trigger_label=policy.trigger_label,
    )
    await tx.outbox.want(LetterKind.COMMENT, entry.repository, entry.number, due=now, notice=notice)
    if await tx.outbox.stands(LetterKind.CHECK_RUN, entry.repository.id, entry.number):
        await tx.outbox.want(LetterKind.CHECK_RUN, entry.repository, entry.number, due=now, notice=notice)
    if reason is None or REASONS[reason].label_off:
        await take_label_off(tx, entry.repository, entry.number, policy, now)


async def take_label_off(tx: Transaction, repository: Repository, number: int, policy: Policy, now: datetime) -> None:
    """Have the trigger label removed: the stay in the queue that it asked for is over."""
    await tx.outbox.want(LetterKind.LABEL_OFF, repository, number, due=now, label=policy.trigger_label)


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
) -> Happening:
    """The entry leaves its queue without landing. Raises StaleVersion if it changed since it was read."""
    await tx.entries.remove(entry)
    await tell_end(tx, entry, policy, now, reason=reason, detail=detail, checks=checks, people=people)
    if REASONS[reason].outcome is Outcome.FAILED:
        await tx.refusals.put(entry.repository.id, entry.number, entry.head, reason, now)
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
        data={"head": entry.head, "from": entry.status.value, "checks": [c.name for c in checks], "detail": detail},
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
    await tx.queues.pause(queue.id, Pause(reason, detail, now))
    for entry in entries:
        notice = Notice(
            kind=NoticeKind.PAUSED,
            number=entry.number,
            base_branch=entry.base_branch,
            head_sha=entry.head,
            at=now,
            position=entry.position,
            depth=len(entries),
            reason=reason,
            detail=detail,
            enqueued_at=entry.enqueued_at,
            trigger_label=policy.trigger_label,
        )
        await tx.outbox.want(LetterKind.COMMENT, entry.repository, entry.number, due=now, notice=notice)
    return await note(tx, now, "paused", queue.repository, queue.base_branch, 0, reason=reason, data={"detail": detail})


def _awaited(entry: Entry) -> tuple[CheckReport, ...]:
    """The checks that an entry waits for, as far as they are known by name only."""
    return tuple(
        CheckReport(name, None, CheckState.PENDING, "expected", None, None, None) for name in entry.awaited_checks
    )
