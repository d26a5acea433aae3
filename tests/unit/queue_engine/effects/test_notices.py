"""Notices that functions create, and those that they leave out, on both databases."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from queue_engine.config.model import CommentRules, Policy, TrainRules
from queue_engine.core.database.database import Database
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.model import Entry, EntryStatus, TimelineEvent
from queue_engine.domain.notice import BlockerFacts, CommandReply, Notice, NoticeKind
from queue_engine.domain.policy import Candidates, CommentPolicy
from queue_engine.domain.reasons import REASONS, Outcome, Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change
from queue_engine.effects.notices import PROGRESS
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.store.examples import NOW, REPOSITORY, changed, queue, stand

MINUTE = timedelta(minutes=1)
ALL, OUTCOMES, NONE = (Policy(comments=CommentRules(level=level)) for level in CommentPolicy)


async def joined(store: Store, *numbers: int) -> tuple[Entry, ...]:
    """Entries of one queue with these numbers."""
    async with store.transaction() as tx:
        standing = await queue(tx)
        return tuple([await stand(tx, standing, number) for number in numbers])


async def wanted(store: Store, number: int = 1, kind: OutboxKind = OutboxKind.COMMENT) -> Notice | None:
    """What is to stand on GitHub."""
    async with store.reading() as tx:
        return await tx.outbox.wanted(kind, REPOSITORY.id, number)


async def progress(
    store: Store, entry: Entry, kind: NoticeKind, policy: Policy = ALL, now: datetime = NOW
) -> Notice | None:
    """The notice of the comment after this progress."""
    async with store.transaction() as tx:
        await notices.announce_progress(Change(tx, now), entry, kind, policy, depth=entry.position + 1)
    return await wanted(store, entry.number)


async def leave(store: Store, entry: Entry, reason: Reason, policy: Policy = ALL, now: datetime = NOW) -> None:
    async with store.transaction() as tx:
        await record.dequeue(Change(tx, now), entry, DequeueReason(reason), policy)


async def ask(store: Store, policy: Policy = ALL, *, asked_at: datetime = NOW, number: int = 1) -> bool:
    """Somebody gave a command."""
    async with store.transaction() as tx:
        await tx.answers.put(REPOSITORY.id, number, 5, CommandReply(at=asked_at, by="mia", replies=()))
        return await notices.announce_reply(
            Change(tx, asked_at + MINUTE),
            REPOSITORY,
            number,
            base_branch="main",
            head_sha="head-1",
            policy=policy,
            asked_at=asked_at,
        )


async def due(store: Store) -> bool:
    """Whether a comment is to be written or edited; whatever is due is sent."""
    found = False
    async with store.transaction() as tx:
        while item := await tx.outbox.claim(owner="w", now=NOW + timedelta(days=1), lease=MINUTE):
            found |= item.kind is OutboxKind.COMMENT
            await tx.outbox.done(item, NOW)
    return found


# Where it stands


async def test_notice_names_the_first_of_those_ahead(store: Store) -> None:
    """Ten by number, in their order; the position says how many there are."""
    *_, last = await joined(store, *range(1, 14))
    notice = await progress(store, last, NoticeKind.QUEUED)
    assert notice is not None
    assert notice.ahead == tuple(range(1, 11))
    assert notice.position == 12


async def test_notice_estimates_from_what_landed_on_this_branch_before(store: Store) -> None:
    """Nothing with four landings; with five a range, from which the time that the front has had is taken off."""
    front, second = await joined(store, 1, 2)
    for count in range(5):
        notice = await progress(store, second, NoticeKind.QUEUED, now=NOW)
        assert notice is not None
        assert (notice.eta is None) is (count < 5)
        async with store.transaction() as tx:
            for branch, seconds in (("main", 600 + count), ("other", 5)):
                landed = TimelineEvent(NOW, "landed", REPOSITORY.id, branch, 90 + count, data={"front": seconds})
                await tx.timeline.append(landed)
    notice = await progress(store, second, NoticeKind.QUEUED)
    assert notice is not None
    assert notice.eta == (NOW + 20 * MINUTE, NOW + 25 * MINUTE)
    async with store.transaction() as tx:
        await tx.entries.save(changed(front, status=EntryStatus.UPDATING, started_at=NOW - 6 * MINUTE))
    notice = await progress(store, second, NoticeKind.QUEUED)
    assert notice is not None
    assert notice.eta == (NOW + 10 * MINUTE, NOW + 15 * MINUTE)


@pytest.mark.parametrize("trains", [False, True])
async def test_first_words_wait_only_for_an_entry_that_may_land_at_once(store: Store, trains: bool) -> None:
    """P6: a label is answered at once. P7: one that lands at once costs one comment less."""
    front, second = await joined(store, 1, 2)
    policy = replace(ALL, trains=TrainRules(Candidates.PUSH if trains else Candidates.OFF))
    later = NOW + policy.comment_debounce
    for entry, due in ((front, later), (second, later if trains else NOW)):
        await progress(store, entry, NoticeKind.QUEUED, policy)
        async with store.transaction() as tx:
            assert await tx.outbox.next_due() == due
            for _ in range(due == NOW):
                item = await tx.outbox.claim(owner="w", now=NOW, lease=MINUTE)
                assert item is not None
                await tx.outbox.created(item, 5)
                await tx.outbox.done(item, NOW)


# How much


@pytest.mark.parametrize("kind", sorted(PROGRESS))
async def test_level_outcomes_leaves_out_progress(store: Store, kind: NoticeKind) -> None:
    """Nothing is written while it waits, and nothing at all with `none`."""
    (entry,) = await joined(store, 1)
    assert await progress(store, entry, kind, OUTCOMES) is None
    assert await progress(store, entry, kind, NONE) is None
    assert await progress(store, entry, kind, ALL) is not None


@pytest.mark.thorough
async def test_level_outcomes_announces_every_reason(store: Store) -> None:
    """IMQ announces the outcome, unless the configuration asks for no comments."""
    staying = {Outcome.PAUSED, Outcome.SEQUENTIAL}
    reasons = [reason for reason in Reason if REASONS[reason].outcome not in staying]
    for number, reason in enumerate(reasons, start=1):
        announced, untold = await joined(store, number, 1_000 + number)
        await leave(store, announced, reason, OUTCOMES)
        await leave(store, untold, reason, NONE)
        notice = await wanted(store, announced.number)
        assert notice is not None, reason
        assert notice.reason is reason
        assert await wanted(store, untold.number) is None, reason


async def test_level_outcomes_corrects_what_is_true_no_more(store: Store) -> None:
    """A comment that shows a pause, or a dequeue, must not show that for ever; then it is silent."""
    (entry,) = await joined(store, 1)
    async with store.transaction() as tx:
        await notices.announce_blockers(Change(tx, NOW), entry, [Blocker(Reason.FROZEN, "", NOW + MINUTE)], OUTCOMES)
    paused = await wanted(store)
    async with store.transaction() as tx:
        await notices.announce_resumed(Change(tx, NOW), entry, OUTCOMES, depth=1)
    again = await wanted(store)
    assert paused is not None
    assert again is not None
    assert (paused.kind, paused.until, again.kind) == (NoticeKind.PAUSED, NOW + MINUTE, NoticeKind.QUEUED)
    last = await progress(store, entry, NoticeKind.UPDATING, OUTCOMES)
    assert last is not None
    assert last.kind is NoticeKind.QUEUED


async def test_check_run_is_written_whatever_the_level(store: Store) -> None:
    """A check run notifies no people."""
    (entry,) = await joined(store, 1)
    checking = changed(entry, status=EntryStatus.CHECKING)
    await progress(store, checking, NoticeKind.CHECKING, NONE)
    assert await wanted(store, kind=OutboxKind.CHECK_RUN) is not None
    assert await wanted(store) is None


async def test_custom_text_is_chosen_by_the_reason_before_the_kind(store: Store) -> None:
    """A repository's text for a reason is nearer than its text for all that leave."""
    policy = Policy(
        comments=CommentRules(texts={"failed": "It failed.", "conflict": "It conflicts.", "queued": "Welcome."})
    )
    first, second = await joined(store, 1, 2)
    await leave(store, first, Reason.CONFLICT, policy)
    welcomed = await progress(store, second, NoticeKind.QUEUED, policy)
    assert welcomed is not None
    assert welcomed.text == "Welcome."
    await leave(store, second, Reason.NO_CHECKS, policy)
    texts = [notice.text for number in (1, 2) if (notice := await wanted(store, number)) is not None]
    assert texts == ["It conflicts.", "It failed."]


# Blocked queues


async def test_broken_rules_are_shown_in_every_check_run(store: Store) -> None:
    """A maintainer who fixes the file looks there; other reasons are reported where a check run exists already."""
    first, second = await joined(store, 1, 2)
    frozen, broken = Blocker(Reason.FROZEN, ""), Blocker(Reason.MISCONFIGURED, "line 2: what?")
    async with store.transaction() as tx:
        await notices.announce_blockers(Change(tx, NOW), first, [frozen], ALL)
        await notices.announce_blockers(Change(tx, NOW), second, [frozen, broken], NONE)
    assert await wanted(store, 1, OutboxKind.CHECK_RUN) is None
    shown = await wanted(store, 2, OutboxKind.CHECK_RUN)
    assert shown is not None
    assert (shown.reason, shown.detail) == (Reason.FROZEN, None)
    assert shown.other_blockers == (BlockerFacts(reason=broken.reason, detail=broken.detail),)
    async with store.transaction() as tx:
        for entry in (first, second):
            await notices.announce_resumed(Change(tx, NOW), entry, ALL, depth=2)
    shown = await wanted(store, 2, OutboxKind.CHECK_RUN)
    assert shown is not None
    assert shown.kind is NoticeKind.QUEUED
    assert await wanted(store, 1, OutboxKind.CHECK_RUN) is None


async def test_preempted_entry_has_a_check_run_that_waits(store: Store) -> None:
    """A check run that says "being checked" shows the wait; where one of an earlier entry has ended, a new one does."""
    (entry,) = await joined(store, 1)
    await progress(store, entry, NoticeKind.QUEUED)
    assert await wanted(store, kind=OutboxKind.CHECK_RUN) is None
    await progress(store, changed(entry, status=EntryStatus.CHECKING), NoticeKind.CHECKING)
    await progress(store, entry, NoticeKind.QUEUED)
    shown = await wanted(store, kind=OutboxKind.CHECK_RUN)
    assert shown is not None
    assert shown.kind is NoticeKind.QUEUED
    await leave(store, entry, Reason.CONFLICT)
    (entry,) = await joined(store, 1)
    await progress(store, entry, NoticeKind.QUEUED)
    shown = await wanted(store, kind=OutboxKind.CHECK_RUN)
    assert shown is not None
    assert (shown.kind, shown.reason) == (NoticeKind.QUEUED, None)


# Answers, and the last word


async def test_reply_edits_the_comment_that_exists(store: Store) -> None:
    """The notice is the same; IMQ sends the comment again, with the reply."""
    (entry,) = await joined(store, 1)
    before = await progress(store, entry, NoticeKind.QUEUED)
    assert await due(store)
    assert await ask(store)
    assert await due(store)
    assert await wanted(store) == before


async def test_reply_without_an_earlier_comment_creates_one(store: Store) -> None:
    """Without an entry the comment shows the reply alone; with an entry, the progress, too."""
    assert await ask(store)
    alone = await wanted(store)
    assert alone is not None
    assert alone.kind is NoticeKind.ANSWERED
    await joined(store, 2)
    assert await ask(store, OUTCOMES, number=2)
    placed = await wanted(store, 2)
    assert placed is not None
    assert (placed.kind, placed.position) == (NoticeKind.QUEUED, 0)


async def test_reply_with_level_none_is_not_written(store: Store) -> None:
    """The reaction is all."""
    assert not await ask(store, NONE)
    assert not await due(store)


@pytest.mark.parametrize("reason", [Reason.CLOSED, Reason.MERGED_ELSEWHERE])
async def test_no_reply_is_written_after_another_person_closed_it(store: Store, reason: Reason) -> None:
    """After the close no earlier command gets a reply; one after the pull request was reopened does."""
    (entry,) = await joined(store, 1)
    await leave(store, entry, reason, now=NOW)
    assert await due(store)
    assert not await ask(store, asked_at=NOW - MINUTE)
    assert not await due(store)
    assert await ask(store, asked_at=NOW + MINUTE)
    assert await due(store)


@pytest.mark.parametrize("mismatch", [None, "another tree"])
async def test_landed_mismatch_is_shown_by_a_check_run_even_if_there_was_none(
    sqlite_database: Database, mismatch: str | None
) -> None:
    """A tested tree that landed needs no check run of its own; another tree has to be seen at the commit (P1)."""
    store = Store(sqlite_database)
    (entry,) = await joined(store, 1)
    async with store.transaction() as tx:
        change, files = Change(tx, NOW), [f"docs/{each}.md" for each in range(7)]
        await notices.announce_landed(change, entry, "landed-1", ALL, mismatch=mismatch, untested=files)
    reason = None if mismatch is None else Reason.TREE_MISMATCH
    comment, run = await wanted(store), await wanted(store, kind=OutboxKind.CHECK_RUN)
    assert comment is not None
    assert (comment.kind, comment.landed_sha, comment.reason, comment.detail) == (
        NoticeKind.LANDED,
        "landed-1",
        reason,
        mismatch,
    )
    assert (comment.untested_paths, comment.more_paths) == (tuple(files[:5]), 2)
    assert run == (None if mismatch is None else comment)
