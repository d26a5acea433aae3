"""What is wanted to be told, and when silence is better, on both databases."""

from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from queue_engine import journal, telling
from queue_engine.model import Entry, EntryStatus
from queue_engine.notice import CommandAnswer, Notice, NoticeKind
from queue_engine.policy import CommentLevel, Policy
from queue_engine.reasons import REASONS, Outcome, Reason
from queue_engine.store import Store
from queue_engine.store.outbox import LetterKind
from tests.queue_engine.store.examples import NOW, REPOSITORY, queue, stand

MINUTE = timedelta(minutes=1)
ALL, OUTCOMES, NONE = (Policy(comments=level) for level in CommentLevel)


async def joined(store: Store, *numbers: int) -> tuple[Entry, ...]:
    """These stand in one queue."""
    async with store.transaction() as tx:
        standing = await queue(tx)
        return tuple([await stand(tx, standing, number) for number in numbers])


async def wanted(store: Store, number: int = 1, kind: LetterKind = LetterKind.COMMENT) -> Notice | None:
    """What is to stand on GitHub."""
    async with store.reading() as tx:
        return await tx.outbox.wanted(kind, REPOSITORY.id, number)


async def progress(
    store: Store, entry: Entry, kind: NoticeKind, policy: Policy = ALL, now: datetime = NOW
) -> Notice | None:
    """What is to stand in the comment after this progress."""
    async with store.transaction() as tx:
        await telling.tell_progress(tx, entry, kind, policy, now, depth=entry.position + 1)
    return await wanted(store, entry.number)


async def leave(store: Store, entry: Entry, reason: Reason, policy: Policy = ALL, now: datetime = NOW) -> None:
    async with store.transaction() as tx:
        await journal.dismiss(tx, entry, reason, policy, now)


async def ask(store: Store, policy: Policy = ALL, *, asked_at: datetime = NOW, number: int = 1) -> bool:
    """Somebody gave a command."""
    async with store.transaction() as tx:
        await tx.answers.put(REPOSITORY.id, number, 5, CommandAnswer(at=asked_at, by="mia", replies=()))
        return await telling.tell_answer(
            tx,
            REPOSITORY,
            number,
            base_branch="main",
            head="head-1",
            policy=policy,
            asked_at=asked_at,
            now=asked_at + MINUTE,
        )


async def due(store: Store) -> bool:
    """Whether a comment is to be written or edited; whatever is due is sent."""
    found = False
    async with store.transaction() as tx:
        while letter := await tx.outbox.claim(owner="w", now=NOW + timedelta(days=1), lease=MINUTE):
            found |= letter.kind is LetterKind.COMMENT
            await tx.outbox.done(letter, NOW)
    return found


# Where it stands


async def test_telling_names_the_first_of_those_ahead(store: Store) -> None:
    """Ten by number, in their order; the position says how many there are."""
    *_, last = await joined(store, *range(1, 14))
    notice = await progress(store, last, NoticeKind.QUEUED)
    assert notice is not None
    assert notice.ahead == tuple(range(1, 11))
    assert notice.position == 12


async def test_telling_estimates_from_what_landed_on_this_branch_before(store: Store) -> None:
    """Nothing with four landings; with five a range, from which the time that the front has had is taken off."""
    front, second = await joined(store, 1, 2)
    for count in range(5):
        notice = await progress(store, second, NoticeKind.QUEUED, now=NOW)
        assert notice is not None
        assert (notice.eta is None) is (count < 5)
        async with store.transaction() as tx:
            await journal.note(tx, NOW, "landed", REPOSITORY, "main", 90 + count, data={"front": 600 + count})
            await journal.note(tx, NOW, "landed", REPOSITORY, "other", 80 + count, data={"front": 5})
    notice = await progress(store, second, NoticeKind.QUEUED)
    assert notice is not None
    assert notice.eta == (NOW + 20 * MINUTE, NOW + 25 * MINUTE)
    async with store.transaction() as tx:
        await tx.entries.save(replace(front, status=EntryStatus.UPDATING, started_at=NOW - 6 * MINUTE))
    notice = await progress(store, second, NoticeKind.QUEUED)
    assert notice is not None
    assert notice.eta == (NOW + 10 * MINUTE, NOW + 15 * MINUTE)


# How much


@pytest.mark.parametrize("kind", sorted(telling.PASSING))
async def test_telling_outcomes_only_leaves_progress_untold(store: Store, kind: NoticeKind) -> None:
    """Nothing is written while it waits, and nothing at all with `none`."""
    (entry,) = await joined(store, 1)
    assert await progress(store, entry, kind, OUTCOMES) is None
    assert await progress(store, entry, kind, NONE) is None
    assert await progress(store, entry, kind, ALL) is not None


@pytest.mark.parametrize("reason", [reason for reason in Reason if REASONS[reason].outcome is not Outcome.PAUSED])
async def test_telling_outcomes_tells_every_reason(store: Store, reason: Reason) -> None:
    """What became of it is told, unless nothing is to be told."""
    first, second = await joined(store, 1, 2)
    await leave(store, first, reason, OUTCOMES)
    await leave(store, second, reason, NONE)
    assert await wanted(store, 1) is not None
    assert await wanted(store, 2) is None


async def test_telling_outcomes_corrects_what_is_true_no_more(store: Store) -> None:
    """A comment that says that the queue is paused, or that it left, must not go on saying so; then it is silent."""
    (entry,) = await joined(store, 1)
    async with store.transaction() as tx:
        await telling.tell_standstill(tx, (entry,), Reason.FROZEN, "", NOW + MINUTE, OUTCOMES, NOW)
    paused = await wanted(store)
    async with store.transaction() as tx:
        await telling.tell_resumed(tx, (entry,), OUTCOMES, NOW)
    again = await wanted(store)
    assert paused is not None
    assert again is not None
    assert (paused.kind, paused.until, again.kind) == (NoticeKind.PAUSED, NOW + MINUTE, NoticeKind.QUEUED)
    last = await progress(store, entry, NoticeKind.UPDATING, OUTCOMES)
    assert last is not None
    assert last.kind is NoticeKind.QUEUED


async def test_telling_check_run_is_told_whatever_the_level(store: Store) -> None:
    """The list of checks is where nobody is disturbed."""
    (entry,) = await joined(store, 1)
    checking = replace(entry, status=EntryStatus.CHECKING)
    await progress(store, checking, NoticeKind.CHECKING, NONE)
    assert await wanted(store, kind=LetterKind.CHECK_RUN) is not None
    assert await wanted(store) is None


async def test_telling_own_words_go_by_the_reason_before_the_kind(store: Store) -> None:
    """A repository's text for a reason is nearer than its text for all that leave."""
    policy = Policy(texts={"failed": "It failed.", "conflict": "It conflicts.", "queued": "Welcome."})
    first, second = await joined(store, 1, 2)
    await leave(store, first, Reason.CONFLICT, policy)
    welcomed = await progress(store, second, NoticeKind.QUEUED, policy)
    assert welcomed is not None
    assert welcomed.text == "Welcome."
    await leave(store, second, Reason.NO_CHECKS, policy)
    texts = [notice.text for number in (1, 2) if (notice := await wanted(store, number)) is not None]
    assert texts == ["It conflicts.", "It failed."]


# Standing still


async def test_telling_broken_rules_stands_in_every_check_run(store: Store) -> None:
    """Whoever mends the file looks there; other reasons are told where a run stands already."""
    first, second = await joined(store, 1, 2)
    async with store.transaction() as tx:
        await telling.tell_standstill(tx, (first,), Reason.FROZEN, "", None, ALL, NOW)
        await telling.tell_standstill(tx, (second,), Reason.MISCONFIGURED, "line 2: what?", None, NONE, NOW)
    assert await wanted(store, 1, LetterKind.CHECK_RUN) is None
    shown = await wanted(store, 2, LetterKind.CHECK_RUN)
    assert shown is not None
    assert (shown.reason, shown.detail) == (Reason.MISCONFIGURED, "line 2: what?")
    async with store.transaction() as tx:
        await telling.tell_resumed(tx, (first, second), ALL, NOW)
    shown = await wanted(store, 2, LetterKind.CHECK_RUN)
    assert shown is not None
    assert shown.kind is NoticeKind.QUEUED
    assert await wanted(store, 1, LetterKind.CHECK_RUN) is None


async def test_telling_whoever_was_sent_back_has_a_check_run_that_waits(store: Store) -> None:
    """A run that says "being checked" is brought back; one of an earlier stay is left as it ended."""
    (entry,) = await joined(store, 1)
    await progress(store, entry, NoticeKind.QUEUED)
    assert await wanted(store, kind=LetterKind.CHECK_RUN) is None
    await progress(store, replace(entry, status=EntryStatus.CHECKING), NoticeKind.CHECKING)
    await progress(store, entry, NoticeKind.QUEUED)
    shown = await wanted(store, kind=LetterKind.CHECK_RUN)
    assert shown is not None
    assert shown.kind is NoticeKind.QUEUED
    await leave(store, entry, Reason.CONFLICT)
    (entry,) = await joined(store, 1)
    await progress(store, entry, NoticeKind.QUEUED)
    shown = await wanted(store, kind=LetterKind.CHECK_RUN)
    assert shown is not None
    assert shown.reason is Reason.CONFLICT


# Answers, and the last word


async def test_telling_an_answer_edits_what_stands(store: Store) -> None:
    """The notice stays as it is; the comment is sent once more, with the answer."""
    (entry,) = await joined(store, 1)
    before = await progress(store, entry, NoticeKind.QUEUED)
    assert await due(store)
    assert await ask(store)
    assert await due(store)
    assert await wanted(store) == before


async def test_telling_an_answer_where_nothing_stands_is_a_comment_for_it(store: Store) -> None:
    """Who is not queued gets the answer alone; who waits in silence is told where it stands."""
    assert await ask(store)
    alone = await wanted(store)
    assert alone is not None
    assert alone.kind is NoticeKind.ANSWERED
    await joined(store, 2)
    assert await ask(store, OUTCOMES, number=2)
    placed = await wanted(store, 2)
    assert placed is not None
    assert (placed.kind, placed.position) == (NoticeKind.QUEUED, 0)


async def test_telling_an_answer_with_level_none_is_silence(store: Store) -> None:
    """The reaction is all."""
    assert not await ask(store, NONE)
    assert not await due(store)


@pytest.mark.parametrize("reason", [Reason.CLOSED, Reason.MERGED_ELSEWHERE])
async def test_telling_nothing_more_after_others_closed_it(store: Store, reason: Reason) -> None:
    """The leave is the last word to who asked before; who asks after it was opened again is answered."""
    (entry,) = await joined(store, 1)
    await leave(store, entry, reason, now=NOW)
    assert await due(store)
    assert not await ask(store, asked_at=NOW - MINUTE)
    assert not await due(store)
    assert await ask(store, asked_at=NOW + MINUTE)
    assert await due(store)
