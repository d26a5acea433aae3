"""What people are to be told, made of the queue's state and wanted in the transaction that makes it true.

The rules of speaking are here: how much a repository wants to hear, its own words in the place of ours, and that
nothing is said any more once a pull request was closed by others. The words are in `notifications`.
"""

from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from typing import Any

from queue_engine.eta import landing
from queue_engine.facts import CheckReport, CheckState
from queue_engine.model import Entry, EntryStatus, Repository
from queue_engine.notice import Notice, NoticeKind
from queue_engine.policy import CommentLevel, Policy
from queue_engine.reasons import REASONS, Move, Outcome, Reason
from queue_engine.store import Transaction
from queue_engine.store.outbox import LetterKind
from queue_engine.wish import queued_by

AHEAD_NAMED = 10
"""How many of the pull requests before it a notice names."""

PASSING = frozenset({NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})
"""Kinds that tell of progress, not of what became of a pull request."""

_CLOSED = frozenset({Reason.CLOSED, Reason.MERGED_ELSEWHERE})
_CHECKED = frozenset({EntryStatus.CHECKING, EntryStatus.READY})

_NOTICE_OF_STATUS = {
    EntryStatus.PENDING: NoticeKind.QUEUED,
    EntryStatus.UPDATING: NoticeKind.UPDATING,
    EntryStatus.CHECKING: NoticeKind.CHECKING,
    EntryStatus.READY: NoticeKind.READY,
}
_NOTICE_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
}


async def tell(tx: Transaction, repository: Repository, notice: Notice, policy: Policy, *, due: datetime) -> None:
    """Bring the comment up to this notice, if its repository wants to hear of it."""
    if policy.comments is CommentLevel.NONE:
        return
    if policy.comments is CommentLevel.OUTCOMES and notice.kind in PASSING:
        shown = await tx.outbox.wanted(LetterKind.COMMENT, repository.id, notice.number)
        # Progress is told only where the comment would go on saying what is not true any more.
        if shown is None or shown.kind in PASSING:
            return
    worded = _in_own_words(notice, policy)
    if worded.kind is NoticeKind.REFUSED and policy.not_followed:
        worded = worded.model_copy(update={"not_followed": policy.not_followed})
    await tx.outbox.want(LetterKind.COMMENT, repository, notice.number, due=due, notice=worded)


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
    notice = await _progress(tx, entry, kind, policy, now, depth=depth, checks=checks)
    due = now + policy.courtesy
    await tell(tx, entry.repository, notice, policy, due=due)
    if (check_run and entry.status in _CHECKED) or (kind is NoticeKind.QUEUED and await _is_shown(tx, entry)):
        await _check_run(tx, entry, notice, policy, due)


async def tell_retrying(
    tx: Transaction, entry: Entry, next_try: datetime, policy: Policy, now: datetime, *, depth: int
) -> None:
    """Say since when GitHub has not answered as it should, and when IMQ asks again."""
    told = await _progress(tx, entry, _NOTICE_OF_STATUS[entry.status], policy, now, depth=depth)
    notice = told.model_copy(update={"retrying_since": entry.trouble_since, "next_try": next_try, "eta": None})
    await tell(tx, entry.repository, notice, policy, due=now)
    if await tx.outbox.stands(LetterKind.CHECK_RUN, entry.repository.id, entry.number):
        await _check_run(tx, entry, notice, policy, now)


async def renewed(tx: Transaction, repository: Repository, notice: Notice, now: datetime) -> Notice:
    """The notice with the place in line as it is now, if it tells of one and that has changed.

    One that waits for a place reads how many were before it when it began to wait, which stays true.
    """
    if notice.position is None or notice.kind is NoticeKind.HELD:
        return notice
    entry = await tx.entries.find(repository.id, notice.number)
    if entry is None or entry.position == notice.position:
        return notice
    if notice.kind is not NoticeKind.QUEUED:
        return notice.model_copy(update={"position": entry.position})
    if entry.status is not EntryStatus.PENDING:
        return notice
    depth = await tx.entries.count(entry.queue_id)
    return notice.model_copy(update={"at": now, **await _place(tx, entry, now, depth=depth)})


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
    """Finish comment, check run and label for an entry that left. One with `landed_sha` landed.

    A reason says then what was wrong with that, and the check run says so too, be there one or not (P1).
    """
    landed = landed_sha is not None
    notice = Notice(
        kind=NoticeKind.LANDED if reason is None or landed else _NOTICE_OF_OUTCOME[REASONS[reason].outcome],
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
        fix_labels=policy.fix_labels,
    )
    await tell(tx, entry.repository, notice, policy, due=now)
    mismatch = landed and reason is not None
    if mismatch or await tx.outbox.stands(LetterKind.CHECK_RUN, entry.repository.id, entry.number):
        await _check_run(tx, entry, notice, policy, now)
    if reason is None or landed or REASONS[reason].label_off:
        earlier = await queued_by(tx, entry.repository.id, entry.number, entry.vouched, policy)
        await take_label_off(tx, entry.repository, entry.number, policy, now, also=earlier)


async def take_label_off(
    tx: Transaction, repository: Repository, number: int, policy: Policy, now: datetime, *, also: Iterable[str] = ()
) -> None:
    """Have every trigger label removed, and those that were one when it was queued: the stay they asked for is over."""
    earlier = sorted(label for label in also if not policy.triggered([label]))
    labels = "\n".join((*policy.trigger_labels, *earlier))
    await tx.outbox.want(LetterKind.LABEL_OFF, repository, number, due=now, label=labels)


async def tell_standstill(
    tx: Transaction,
    entries: Sequence[Entry],
    reason: Reason,
    detail: str,
    until: datetime | None,
    policy: Policy,
    now: datetime,
    *,
    kind: NoticeKind = NoticeKind.PAUSED,
) -> None:
    """Say to these of a queue why it stands still, or goes on without them, and until when, if that is known.

    Check runs that stand say so too. A broken configuration is shown in everybody's, where whoever mends it looks.
    """
    for entry in entries:
        notice = Notice(
            kind=kind,
            number=entry.number,
            base_branch=entry.base_branch,
            head_sha=entry.head,
            at=now,
            position=entry.position,
            reason=reason,
            detail=detail or None,
            until=until,
            enqueued_at=entry.enqueued_at,
            started_at=entry.started_at,
            queued_by=entry.queued_by,
            trigger_label=policy.trigger_label,
            fix_labels=policy.fix_labels,
        )
        await tell(tx, entry.repository, notice, policy, due=now)
        stands = await tx.outbox.stands(LetterKind.CHECK_RUN, entry.repository.id, entry.number)
        if stands or reason is Reason.MISCONFIGURED:
            await _check_run(tx, entry, notice, policy, now)


async def tell_resumed(tx: Transaction, entries: Sequence[Entry], policy: Policy, now: datetime) -> None:
    """Say to everybody in a queue that goes on where they stand now."""
    due = now + policy.courtesy
    for entry in entries:
        kind = _NOTICE_OF_STATUS[entry.status]
        notice = await _progress(tx, entry, kind, policy, now, depth=len(entries))
        await tell(tx, entry.repository, notice, policy, due=due)
        if await tx.outbox.stands(LetterKind.CHECK_RUN, entry.repository.id, entry.number):
            await _check_run(tx, entry, notice, policy, due)


async def tell_answer(
    tx: Transaction,
    repository: Repository,
    number: int,
    *,
    base_branch: str,
    head: str,
    policy: Policy,
    asked_at: datetime,
    now: datetime,
) -> bool:
    """Bring the comment up to the answer that was just put; whether there is anything to be read on GitHub.

    Who asked before the pull request was closed by others gets no answer after it.
    """
    if policy.comments is CommentLevel.NONE:
        return False
    shown = await tx.outbox.wanted(LetterKind.COMMENT, repository.id, number)
    if shown is not None and shown.reason in _CLOSED and asked_at < shown.at:
        return False
    if await tx.outbox.again(LetterKind.COMMENT, repository.id, number, due=now):
        return True
    # Somebody typed the command: this is not the first comment, and one of them may be an earlier IMQ's.
    await tx.outbox.look_first(repository, number, now)
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        notice = Notice(
            kind=NoticeKind.ANSWERED,
            number=number,
            base_branch=base_branch,
            head_sha=head,
            at=now,
            trigger_label=policy.trigger_label,
            fix_labels=policy.fix_labels,
        )
    else:
        # It waits where only outcomes are told: who asks is told of the rest.
        depth = await tx.entries.count(entry.queue_id)
        notice = await _progress(tx, entry, _NOTICE_OF_STATUS[entry.status], policy, now, depth=depth)
    worded = _in_own_words(notice, policy)
    await tx.outbox.want(LetterKind.COMMENT, repository, number, due=now, notice=worded)
    return True


async def _progress(
    tx: Transaction,
    entry: Entry,
    kind: NoticeKind,
    policy: Policy,
    now: datetime,
    *,
    depth: int,
    checks: Sequence[CheckReport] = (),
) -> Notice:
    return Notice(
        kind=kind,
        number=entry.number,
        base_branch=entry.base_branch,
        head_sha=entry.head,
        at=now,
        checks=tuple(checks) or _awaited(entry),
        enqueued_at=entry.enqueued_at,
        started_at=entry.started_at,
        queued_by=entry.queued_by,
        trigger_label=policy.trigger_label,
        fix_labels=policy.fix_labels,
        **await _place(tx, entry, now, depth=depth),
    )


async def _place(tx: Transaction, entry: Entry, now: datetime, *, depth: int) -> dict[str, Any]:
    """An entry's place in line, as fields of a notice: of how many, behind whom, and when it is likely to land."""
    named = await tx.entries.of_queue(entry.queue_id, most=min(entry.position, AHEAD_NAMED)) if entry.position else ()
    turns = await tx.timeline.durations(entry.repository.id, entry.base_branch, EntryStatus.LANDED.value, "front")
    front = named[0] if named else entry
    spent = timedelta(0) if front.started_at is None else now - front.started_at
    expected = landing(turns, ahead=entry.position, spent=spent)
    return {
        "position": entry.position,
        "depth": depth,
        "ahead": tuple(other.number for other in named),
        "eta": None if expected is None else (now + expected[0], now + expected[1]),
    }


async def _is_shown(tx: Transaction, entry: Entry) -> bool:
    """Whether the check run tells of this very stay: of one that began, and was sent back into line."""
    shown = await tx.outbox.wanted(LetterKind.CHECK_RUN, entry.repository.id, entry.number)
    return shown is not None and shown.kind in PASSING | {NoticeKind.PAUSED}


async def _check_run(tx: Transaction, entry: Entry, notice: Notice, policy: Policy, due: datetime) -> None:
    worded = _in_own_words(notice, policy)
    await tx.outbox.want(LetterKind.CHECK_RUN, entry.repository, entry.number, due=due, notice=worded)


def _in_own_words(notice: Notice, policy: Policy) -> Notice:
    """The notice with the repository's own words, if it has some for this reason, or for this kind.

    Words for a landing are none for one whose tree is not the tested one.
    """
    text = policy.texts.get(notice.reason or "")
    if notice.kind is not NoticeKind.LANDED or notice.reason is None:
        text = text or policy.texts.get(notice.kind)
    return notice.model_copy(update={"text": text})


def _awaited(entry: Entry) -> tuple[CheckReport, ...]:
    """The checks that an entry waits for, as far as they are known by name only."""
    return tuple(
        CheckReport(name, None, CheckState.PENDING, "expected", None, None, None) for name in entry.awaited_checks
    )
