"""Create notices, in the transaction that changes the state that they announce.

These functions announce as much as the repository's configuration asks for, with its custom texts. They announce
nothing after other people closed the pull request. IMQ's own texts are in `notifications`.
"""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any

from queue_engine.config.model import Policy
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.culprit import CulpritRecord
from queue_engine.domain.departure import Cause, DequeueReason
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.landing_record import LandingRecord
from queue_engine.domain.model import Entry, EntryStatus, Repository, TimelineEvent, failing_in
from queue_engine.domain.notice import WAITING, BlockerFacts, Notice, NoticeKind
from queue_engine.domain.policy import CommentPolicy
from queue_engine.domain.reasons import REASONS, Outcome, Reason
from queue_engine.effects.context import Change
from queue_engine.effects.labels import queued_by
from queue_engine.queries.queue_status import load_position
from queue_engine.queries.train_status import load_failure, load_landing, load_trains
from queue_engine.rules.check_progress import pending_checks
from queue_engine.rules.depth import depth_within, held_behind, waits_for_room
from queue_engine.store import Transaction
from queue_engine.store.outbox.items import OutboxKind

PROGRESS = frozenset({NoticeKind.QUEUED, NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})
"""Kinds of notices that show progress, and no outcome."""

_BEING_TESTED = frozenset({NoticeKind.UPDATING, NoticeKind.CHECKING})

NOTICE_OF_STATUS = {
    EntryStatus.PENDING: NoticeKind.QUEUED,
    EntryStatus.UPDATING: NoticeKind.UPDATING,
    EntryStatus.CHECKING: NoticeKind.CHECKING,
    EntryStatus.READY: NoticeKind.READY,
}


def notice_of_pull(
    number: int, base_branch: str, head_sha: str, kind: NoticeKind, policy: Policy, now: datetime, **facts: Any
) -> Notice:
    """Create a notice of a pull request, with these further fields."""
    facts |= {"trigger_label": policy.trigger_label, "fix_labels": policy.fix_labels}
    return Notice(kind=kind, number=number, base_branch=base_branch, head_sha=head_sha, at=now, **facts)


def notice_of(entry: Entry, kind: NoticeKind, policy: Policy, now: datetime, **facts: Any) -> Notice:
    """Create a notice of an entry, with these further fields."""
    facts |= {"enqueued_at": entry.enqueued_at, "started_at": entry.run.started_at, "queued_by": entry.queued_by}
    facts |= {"own_check_required": entry.own_check_required}
    return notice_of_pull(entry.number, entry.base_branch, entry.head_sha, kind, policy, now, **facts)


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
    ended = shown is not None and shown.kind not in WAITING and shown.head_sha == entry.head_sha
    return ended and entry.is_ready


async def begins_quietly(tx: Transaction, entry: Entry, notice: Notice) -> bool:
    """Whether a test begins whose comment shows its progress, and no outage, other check, train or rerun."""
    if notice.kind not in _BEING_TESTED or entry.run.has_branch or entry.run.rerun_checks:
        return False
    shown = await tx.outbox.wanted(OutboxKind.COMMENT, entry.repository.id, entry.number)
    if shown is None or shown.kind not in PROGRESS or shown.retrying_since is not None:
        return False
    added = {check.name for check in notice.checks} - {check.name for check in shown.checks}
    return shown.enqueued_at == entry.enqueued_at and not (shown.checks and added)


async def pass_own_check(change: Change, entry: Entry, policy: Policy) -> None:
    """Have IMQ's check run pass on the head of this entry, since IMQ is about to merge that head."""
    await want_check_run(change, entry, notice_of(entry, NoticeKind.READY, policy, change.now, merges_now=True), policy)


async def withdraw_own_check(change: Change, entry: Entry, policy: Policy) -> None:
    """Have IMQ's check run pass no longer, if it passes: IMQ does not merge this entry now."""
    shown = await change.tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
    if shown is not None and shown.merges_now:
        notice = notice_of(entry, NOTICE_OF_STATUS[entry.status], policy, change.now)
        await want_check_run(change, entry, notice, policy)


async def want_check_run(
    change: Change, entry: Entry, notice: Notice, policy: Policy, due: datetime | None = None
) -> None:
    """Have the check run show this notice, at once or when it is due."""
    worded, due = with_custom_text(notice, policy), due or change.now
    await change.tx.outbox.want(OutboxKind.CHECK_RUN, entry.repository, entry.number, due=due, notice=worded)


def with_custom_text(notice: Notice, policy: Policy) -> Notice:
    """Return the notice with the repository's text for its reason or kind; none for a tree mismatch."""
    text = policy.comments.texts.get(notice.reason or "")
    if notice.kind is not NoticeKind.LANDED or notice.reason is None:
        text = text or policy.comments.texts.get(notice.kind)
    return notice.model_copy(update={"text": text})


FILES_SHOWN = 5

_CLOSED = frozenset({Reason.CLOSED, Reason.MERGED_ELSEWHERE})
_OUTCOME_LABELS = frozenset({NoticeKind.LANDED, NoticeKind.FAILED, NoticeKind.REFUSED})
_FAILED_CHECKS = frozenset({Reason.CHECKS_FAILED, Reason.CHECKS_TIMED_OUT})
_CHECKED = frozenset({EntryStatus.CHECKING, EntryStatus.READY})

_NOTICE_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
}


async def announce(
    change: Change, repository: Repository, notice: Notice, policy: Policy, *, due: datetime | None = None
) -> None:
    """Update the comment by this notice, at once or when it is due, if the configuration asks for such comments."""
    if policy.comments.level is CommentPolicy.NONE:
        return
    if policy.comments.level is CommentPolicy.OUTCOMES and notice.kind in PROGRESS:
        shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, notice.number)
        # Progress is announced only if the comment shows an outcome that is outdated now.
        if shown is None or shown.kind in PROGRESS:
            return
    worded = with_custom_text(notice, policy)
    if worded.kind is NoticeKind.REFUSED and policy.not_followed:
        worded = worded.model_copy(update={"not_followed": policy.not_followed})
    await change.tx.outbox.want(OutboxKind.COMMENT, repository, notice.number, due=due or change.now, notice=worded)


async def announce_progress(
    change: Change,
    entry: Entry,
    kind: NoticeKind,
    policy: Policy,
    *,
    depth: int,
    checks: Sequence[CheckReport] = (),
    check_run: bool = True,
) -> None:
    """Update the comment, and with `check_run` the check run, by progress; quick changes share one update.

    The first words come at once when it is plain that the entry does not land at once: it waits for `checks`, or behind
    another entry. Of a begun test an existing comment waits for `test_edit`. While failed checks run again, the check
    run alone shows progress: an edited comment starts workflows on `issue_comment`, which may cancel the rerun of the
    same concurrency group (erikunha/portfolio #224).
    """
    tx, now = change.tx, change.now
    notice = await progress_notice(change, entry, kind, policy, depth=depth, checks=checks)
    due = now + policy.comment_debounce
    runs_again = entry.status is EntryStatus.CHECKING and bool(entry.run.rerun_checks)
    if not runs_again:
        begins = await begins_quietly(tx, entry, notice)
        waits = checks if begins else entry.position and kind is NoticeKind.QUEUED and not policy.trains.enabled
        if waits and not await tx.outbox.exists(OutboxKind.COMMENT, entry.repository.id, entry.number, sent=True):
            begins, due = False, now
        await announce(change, entry.repository, notice, policy, due=now + policy.test_edit if begins else due)
    if ((check_run or runs_again) and entry.status in _CHECKED) or (
        kind is NoticeKind.QUEUED and await is_shown(tx, entry)
    ):
        await want_check_run(change, entry, notice, policy, due)


async def announce_not_ready(change: Change, entry: Entry, policy: Policy) -> None:
    """Announce what the pull request of an entry lacks, which is not in its queue yet."""
    await announce(change, entry.repository, _not_ready(entry, policy, change.now), policy)


async def announce_retrying(change: Change, entry: Entry, next_try: datetime, policy: Policy, *, depth: int) -> None:
    """Announce since when GitHub fails, and when IMQ retries."""
    progress = await progress_notice(change, entry, NOTICE_OF_STATUS[entry.status], policy, depth=depth)
    notice = progress.model_copy(
        update={"retrying_since": entry.run.github_failing_since, "next_try": next_try, "eta": None}
    )
    await announce(change, entry.repository, notice, policy)
    if await has_check_run(change.tx, entry):
        await want_check_run(change, entry, notice, policy)


async def renewed(tx: Transaction, repository: Repository, notice: Notice, now: datetime) -> Notice:
    """Return the notice with the present position, if it shows a position that has changed, and with who waits for it.

    For an entry that waits for room the notice shows how many were before it when the wait began, which stays true.
    """
    if notice.kind in WAITING:
        later = await tx.entries.awaiting(f'"#{notice.number}"', repository.id)
        notice = notice.model_copy(update={"later": tuple(number for _, number in later)})
    if notice.position is None or notice.kind is NoticeKind.HELD:
        return notice
    entry = await tx.entries.find(repository.id, notice.number)
    if entry is None or entry.position == notice.position:
        return notice
    if notice.kind is not NoticeKind.QUEUED:
        return notice.model_copy(update={"position": entry.position})
    if entry.status is not EntryStatus.PENDING:
        return notice
    depth = (await tx.depths.entries(repository.id)).get(entry.queue_id, 0)
    return notice.model_copy(update={"at": now, **asdict(await load_position(tx, entry, now, depth=depth))})


async def announce_dequeued(change: Change, entry: Entry, why: DequeueReason, policy: Policy) -> None:
    """Complete comment, check run and label of a dequeued entry."""
    meaning = REASONS[why.reason]
    people = why.people if meaning.mentions_author else ()
    facts: dict[str, Any] = {"people": people, "reason": why.reason, "detail": why.detail, "checks": why.checks}
    facts |= {"cause": why.cause, "failure": why.failure, "new_commits": why.new_commits}
    if why.reason in _FAILED_CHECKS and entry.is_ready:
        facts["train"] = await load_failure(change.tx, entry)
    kind = _NOTICE_OF_OUTCOME[meaning.outcome]
    if kind is NoticeKind.FAILED and not entry.is_ready:
        kind = NoticeKind.REFUSED  # It was never in the queue.
    notice = notice_of(entry, kind, policy, change.now, **facts)
    await _announce_last(change, entry, notice, policy, label_off=meaning.label_off)


async def announce_withdrawn(change: Change, repository: Repository, left: TimelineEvent, policy: Policy) -> None:
    """Announce who ended a consent while IMQ could write nothing. A label that is on by now may be a newer one."""
    head_sha, by, number = left.data.get("head") or "", left.data.get("dequeued_by"), left.number
    cause = Cause(by, bool(left.data.get("by_bot"))) if by else None
    facts: dict[str, Any] = {"reason": left.reason, "cause": cause}
    tx, now = change.tx, change.now
    notice = notice_of_pull(number, left.base_branch, head_sha, NoticeKind.CANCELLED, policy, now, **facts)
    await announce(change, repository, notice, policy)
    if await tx.outbox.exists(OutboxKind.CHECK_RUN, repository.id, number):
        await tx.outbox.want(OutboxKind.CHECK_RUN, repository, number, due=now, notice=with_custom_text(notice, policy))


async def announce_landed(
    change: Change, entry: Entry, landed_sha: str, policy: Policy, *, mismatch: str | None, untested: Sequence[str] = ()
) -> None:
    """Complete comment, check run and label of a landed entry.

    `mismatch` says how the landed tree differs from the tested one; a check run shows it in any case (P1). `untested`
    are the files in which the trees differ although they agree.
    """
    reason = None if mismatch is None else Reason.TREE_MISMATCH
    paths = tuple(untested[:FILES_SHOWN])
    facts: dict[str, Any] = {"landed_sha": landed_sha, "reason": reason, "detail": mismatch, "untested_paths": paths}
    facts |= {"more_paths": len(untested) - len(paths), "landed_with": await load_landing(change.tx, entry)}
    notice = notice_of(entry, NoticeKind.LANDED, policy, change.now, **facts)
    await _announce_last(change, entry, notice, policy, label_off=True, check_run=mismatch is not None)


async def _announce_last(
    change: Change, entry: Entry, notice: Notice, policy: Policy, *, label_off: bool, check_run: bool = False
) -> None:
    """Announce the outcome of an entry. Without `check_run`, IMQ updates an existing check run, and creates none."""
    tx = change.tx
    await announce(change, entry.repository, notice, policy)
    if check_run or await has_check_run(tx, entry):
        await want_check_run(change, entry, notice, policy)
    if label_off:
        earlier = await queued_by(tx, entry.repository.id, entry.number, entry.trusted_labels, policy)
        await remove_label(change, entry.repository, entry.number, policy, also=earlier)
    else:
        await set_no_label(tx, entry.repository, entry.number, change.now)
    if notice.kind in _OUTCOME_LABELS:
        landed = notice.kind is NoticeKind.LANDED
        for label, on in ((policy.labels.landed, landed), (policy.labels.failed, not landed)):
            if label is not None:
                await tx.outbox.want_label(entry.repository, entry.number, label, on=on, due=change.now)


async def remove_label(
    change: Change, repository: Repository, number: int, policy: Policy, *, also: Iterable[str] = ()
) -> None:
    """Have all trigger labels removed, and those that were trigger labels when the pull request was queued."""
    earlier = sorted(label for label in also if not policy.has_trigger_label([label]))
    for label in (*policy.trigger_labels, *earlier):
        await change.tx.outbox.want_label(repository, number, label, on=False, due=change.now)


async def set_no_label(tx: Transaction, repository: Repository, number: int, now: datetime) -> None:
    """Have IMQ set no more labels: the pull request left its queue, or a person removed the label."""
    for label, on in (await tx.outbox.wanted_labels(repository.id, number)).items():
        if on:
            await tx.outbox.want_label(repository, number, label, on=False, due=now)


async def announce_blockers(
    change: Change, entry: Entry, blockers: Sequence[Blocker], policy: Policy, *, kind: NoticeKind = NoticeKind.PAUSED
) -> None:
    """Announce all blockers of this entry, by a new check run too for an invalid configuration."""
    first, *others = blockers
    facts = {
        "position": entry.position,
        "reason": first.reason,
        "detail": first.detail or None,
        "until": first.until,
        "since": first.since,
        "by": first.by,
        "other_blockers": tuple(
            BlockerFacts(reason=each.reason, detail=each.detail or None, until=each.until, since=each.since, by=each.by)
            for each in others
        ),
    }
    notice = notice_of(entry, kind, policy, change.now, **facts)
    await announce(change, entry.repository, notice, policy)
    if await has_check_run(change.tx, entry) or any(each.reason is Reason.MISCONFIGURED for each in blockers):
        await want_check_run(change, entry, notice, policy)


async def announce_resumed(change: Change, entry: Entry, policy: Policy, *, depth: int) -> None:
    """Announce the status of an entry that has no blocker any more."""
    due = change.now + policy.comment_debounce
    notice = await progress_notice(change, entry, NOTICE_OF_STATUS[entry.status], policy, depth=depth)
    await announce(change, entry.repository, notice, policy, due=due)
    if await has_check_run(change.tx, entry):
        await want_check_run(change, entry, notice, policy, due)


async def announce_run_ended(change: Change, entry: Entry, policy: Policy, *, depth: int) -> None:
    """Have the check run of a member whose run ended show what the train does next, unless that begins at once."""
    if await is_shown(change.tx, entry):
        notice = await progress_notice(change, entry, NoticeKind.QUEUED, policy, depth=depth)
        train = (await load_trains(change.tx, entry.queue_id)).notice(entry.number)
        shown = notice.model_copy(update={"train": train})
        await want_check_run(change, entry, shown, policy, change.now + policy.comment_debounce)


async def announce_reply(
    change: Change,
    repository: Repository,
    number: int,
    *,
    base_branch: str,
    head_sha: str,
    policy: Policy,
    asked_at: datetime | None = None,
) -> bool:
    """Update the comment by the reply that was just stored; whether GitHub will show the reply.

    `asked_at` is when the command was written; None: now. One from before other people closed the pull request gets no
    reply after that.
    """
    if policy.comments.level is CommentPolicy.NONE:
        return False
    tx, now = change.tx, change.now
    shown = await tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
    if shown is not None and shown.reason in _CLOSED and (asked_at or now) < shown.at:
        return False
    if await tx.outbox.resend(repository.id, number, due=now):
        return True
    # The command is a comment, so there may be others, and one of them may be of an IMQ whose database is lost.
    await tx.outbox.search_first(repository, number, now)
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        notice = notice_of_pull(number, base_branch, head_sha, NoticeKind.ANSWERED, policy, now)
    else:
        # The repository wants comments for outcomes only, but a reply shows the progress.
        depth = await tx.entries.count(entry.queue_id)
        notice = await progress_notice(change, entry, NOTICE_OF_STATUS[entry.status], policy, depth=depth)
    worded = with_custom_text(notice, policy)
    await tx.outbox.want(OutboxKind.COMMENT, repository, number, due=now, notice=worded)
    return True


async def announce_culprit(
    change: Change, repository: Repository, landed: LandingRecord, search: CulpritRecord, policy: Policy
) -> None:
    """Have the comment of a landed pull request say that the base fails since then, or that this was too early."""
    number, member = landed.number, landed.record["members"][-1]
    shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
    if shown is not None and shown.kind is NoticeKind.LANDED:
        notice = shown
    else:
        its_own = number, landed.base_branch, member["head"]
        notice = notice_of_pull(*its_own, NoticeKind.LANDED, policy, change.now, landed_sha=landed.sha)
    if search.revert is None and notice.culprit is not None:
        search = replace(search, revert=notice.culprit.revert)
    found = {"culprit": search, "people": (member["author"],)}
    await announce(change, repository, notice.model_copy(update=found), policy)


async def announce_revert(change: Change, repository: Repository, number: int, revert: int, policy: Policy) -> None:
    """Have the comment that names a culprit say which pull request reverts it."""
    shown = await change.tx.outbox.wanted(OutboxKind.COMMENT, repository.id, number)
    if shown is not None and shown.culprit is not None:
        found = {"culprit": replace(shown.culprit, revert=revert)}
        await announce(change, repository, shown.model_copy(update=found), policy)


async def progress_notice(
    change: Change, entry: Entry, kind: NoticeKind, policy: Policy, *, depth: int, checks: Sequence[CheckReport] = ()
) -> Notice:
    """Create the notice of an entry's progress, with its position."""
    tx, now = change.tx, change.now
    if not entry.is_ready:
        return _not_ready(entry, policy, now)
    if waits_for_room(entry.position, policy):
        behind = held_behind(entry.position, policy)
        return notice_of(entry, NoticeKind.HELD, policy, now, position=behind, reason=Reason.QUEUE_FULL)
    position = asdict(await load_position(tx, entry, now, depth=depth_within(depth, policy)))
    if entry.run.has_branch:
        position["train"] = (await load_trains(tx, entry.queue_id)).notice(entry.number)
    return notice_of(entry, kind, policy, now, checks=tuple(checks) or _expected_reports(entry), **position)


def _not_ready(entry: Entry, policy: Policy, now: datetime) -> Notice:
    first, *others = entry.unmet
    also = tuple(BlockerFacts(reason=each.reason, detail=each.detail) for each in others)
    facts: dict[str, Any] = {"reason": first.reason, "detail": first.detail, "failing": failing_in(entry.unmet)}
    return notice_of(entry, NoticeKind.NOT_READY, policy, now, other_blockers=also, **facts)


def _expected_reports(entry: Entry) -> tuple[CheckReport, ...]:
    """Return reports for the pending checks of an entry, of which IMQ knows only the names."""
    return tuple(
        CheckReport(name, None, CheckState.PENDING, "expected", None, None, None) for name in pending_checks(entry.run)
    )
