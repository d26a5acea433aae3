"""Create notices of entries, and have IMQ's check run show them, in the transaction that changes the entry."""

from datetime import datetime
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.notice import WAITING, Notice, NoticeKind
from queue_engine.store import Transaction
from queue_engine.store.outbox.outbox import OutboxKind

PROGRESS = frozenset({NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})
"""Kinds of notices that show progress, and no outcome."""

_BEING_TESTED = frozenset({NoticeKind.UPDATING, NoticeKind.CHECKING})

NOTICE_OF_STATUS = {
    EntryStatus.PENDING: NoticeKind.QUEUED,
    EntryStatus.UPDATING: NoticeKind.UPDATING,
    EntryStatus.CHECKING: NoticeKind.CHECKING,
    EntryStatus.READY: NoticeKind.READY,
}


def notice_of(entry: Entry, kind: NoticeKind, policy: Policy, now: datetime, **facts: Any) -> Notice:
    """Create a notice of an entry, with these further fields."""
    return Notice(
        kind=kind,
        number=entry.number,
        base_branch=entry.base_branch,
        head_sha=entry.head,
        at=now,
        enqueued_at=entry.enqueued_at,
        started_at=entry.run.started_at,
        queued_by=entry.queued_by,
        trigger_label=policy.trigger_label,
        fix_labels=policy.fix_labels,
        own_check_required=entry.own_check_required,
        **facts,
    )


async def has_check_run(tx: Transaction, entry: Entry) -> bool:
    """Whether the entry has a check run that shows its state: one under way, or one that passes for its merge."""
    if await tx.outbox.exists(OutboxKind.CHECK_RUN, entry.repository.id, entry.number):
        return True
    shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
    return shown is not None and shown.merges_now


async def is_shown(tx: Transaction, entry: Entry) -> bool:
    """Whether the head has a check run that has to show this entry, although its test has not begun.

    It shows progress of this entry, which was preempted after it began, or it ended when the pull request left before.
    IMQ looks for one that a lost database may have known.
    """
    shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
    if shown is None:
        return await tx.outbox.exists(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
    return shown.kind in PROGRESS | {NoticeKind.PAUSED, NoticeKind.HELD} or await contradicts(tx, entry)


async def contradicts(tx: Transaction, entry: Entry) -> bool:
    """Whether the check run on the head of an entry has ended, although the entry is in its queue (P6)."""
    shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
    ended = shown is not None and shown.kind not in WAITING and shown.head_sha == entry.head
    return ended and entry.is_ready


async def begins_quietly(tx: Transaction, entry: Entry, notice: Notice) -> bool:
    """Whether a test begins whose comment shows this entry's progress and no outage, and lacks no train or rerun.

    A check that the comment does not name, and for which the entry waits now, would make the comment false.
    """
    if notice.kind not in _BEING_TESTED or entry.run.candidate_run is not None or entry.run.rerun_checks:
        return False
    shown = await tx.outbox.wanted(OutboxKind.COMMENT, entry.repository.id, entry.number)
    if shown is None or shown.kind not in PROGRESS or shown.retrying_since is not None:
        return False
    added = {check.name for check in notice.checks} - {check.name for check in shown.checks}
    return shown.enqueued_at == entry.enqueued_at and not (shown.checks and added)


async def pass_own_check(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> None:
    """Have IMQ's check run pass on the head of this entry, since IMQ is about to merge that head."""
    await want_check_run(tx, entry, notice_of(entry, NoticeKind.READY, policy, now, merges_now=True), policy, now)


async def withdraw_own_check(tx: Transaction, entry: Entry, policy: Policy, now: datetime) -> None:
    """Have IMQ's check run pass no longer, if it passes: IMQ does not merge this entry now."""
    shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
    if shown is not None and shown.merges_now:
        await want_check_run(tx, entry, notice_of(entry, NOTICE_OF_STATUS[entry.status], policy, now), policy, now)


async def want_check_run(tx: Transaction, entry: Entry, notice: Notice, policy: Policy, due: datetime) -> None:
    worded = with_custom_text(notice, policy)
    await tx.outbox.want(OutboxKind.CHECK_RUN, entry.repository, entry.number, due=due, notice=worded)


def with_custom_text(notice: Notice, policy: Policy) -> Notice:
    """Return the notice with the repository's custom text for its reason or its kind, if there is one.

    A custom text for landings is not used after a tree mismatch.
    """
    text = policy.comments.texts.get(notice.reason or "")
    if notice.kind is not NoticeKind.LANDED or notice.reason is None:
        text = text or policy.comments.texts.get(notice.kind)
    return notice.model_copy(update={"text": text})
