"""Outbox items are wanted, claimed, sent once, tried again, and given up."""

import asyncio
from dataclasses import replace

from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.store import Store, Transaction
from tests.store.examples import LEASE, NOW, OTHER, REPOSITORY, SOON, TICK, queue, stand
from tests.store.outbox.outbox_examples import CHECK_RUN, COMMENT, LABEL, notice, take, want


async def test_want_is_claimed_with_everything_it_says(t: Transaction) -> None:
    """A notice comes out of the outbox as it went in."""
    notice = Notice(
        kind=NoticeKind.FAILED,
        number=1,
        base_branch="main",
        head_sha="abc",
        at=NOW,
        people=("ada", "bob"),
        reason=Reason.CHECKS_FAILED,
        checks=(CheckReport("build", 5, CheckState.FAILED, "failure", "https://example.org/1", NOW, NOW + SOON),),
        enqueued_at=NOW,
    )
    await t.outbox.want(COMMENT, REPOSITORY, 1, due=NOW, notice=notice)
    item = await take(t, owner="w7")
    assert item.notice == notice
    assert (item.kind, item.repository, item.number, item.owner) == (COMMENT, REPOSITORY, 1, "w7")
    assert (item.remote_id, item.maybe_created, item.version, item.attempts) == (None, False, 1, 0)


async def test_want_again_before_it_was_sent_goes_out_once(t: Transaction) -> None:
    """Quick changes coalesce: one item of each kind and pull request, with the last content."""
    await want(t)
    await t.outbox.want(COMMENT, REPOSITORY, 1, due=NOW, notice=notice(NoticeKind.LANDED))
    item = await take(t)
    assert item.notice == notice(NoticeKind.LANDED)
    assert await t.outbox.claim(owner="w", now=NOW, lease=LEASE) is None
    await t.outbox.done(item, NOW)
    assert await t.outbox.next_due() is None


async def test_want_again_never_puts_off_what_was_to_be_sent_sooner(t: Transaction) -> None:
    """An item may wait for the next change, but a stream of changes delays it only for a bounded time."""
    await want(t, now=NOW + SOON)
    await want(t, now=NOW + 2 * SOON)
    assert await t.outbox.next_due() == NOW + SOON
    await want(t, now=NOW)
    assert await t.outbox.next_due() == NOW


async def test_claim_takes_items_in_the_order_in_which_they_fell_due(t: Transaction) -> None:
    """Who waits longest for an answer gets it first; what is not due is left alone."""
    await want(t, number=1, now=NOW)
    await want(t, number=2, now=NOW - SOON)
    await want(t, CHECK_RUN, number=2, now=NOW)
    await want(t, number=3, now=NOW + TICK)
    claimed = [await take(t) for _ in range(3)]
    assert [(item.number, item.kind) for item in claimed] == [(2, COMMENT), (1, COMMENT), (2, CHECK_RUN)]
    assert await t.outbox.claim(owner="w", now=NOW, lease=LEASE) is None
    assert await t.outbox.next_due() == NOW + TICK


async def test_done_is_due_again_when_something_newer_was_wanted_meanwhile(t: Transaction) -> None:
    """The last word always goes out, even if it came while the one before was being sent."""
    await want(t)
    item = await take(t)
    await t.outbox.created(item, 99)
    await want(t, now=NOW + TICK)
    assert await t.outbox.claim(owner="other", now=NOW + SOON, lease=LEASE) is None, "one sender at a time"
    await t.outbox.done(item, NOW + SOON)
    assert await t.outbox.next_due() == NOW + TICK
    newer = await take(t, now=NOW + SOON)
    assert (newer.version, newer.remote_id) == (item.version + 1, 99)


async def test_newer_words_wait_no_longer_than_the_retry_of_those_that_failed(t: Transaction) -> None:
    """P6: words that may wait for an hour beside those that GitHub shows do not wait while it shows none."""
    await want(t)
    item = await take(t)
    await want(t, now=NOW + 9 * SOON)
    await t.outbox.retry(item, at=NOW + SOON, error="502")
    assert await t.outbox.next_due() == NOW + SOON
    item = await take(t, now=NOW + SOON)
    assert (item.attempts, item.version) == (0, 2), "a newer state has its own count"
    await want(t, now=NOW + 9 * SOON)
    await t.outbox.hold(item, at=NOW + 2 * SOON, since=NOW)
    assert await t.outbox.next_due() == NOW + 2 * SOON


async def test_created_ids_are_known_to_every_later_item(t: Transaction) -> None:
    """What was created once is edited from then on, and created again only when somebody deleted it."""
    await want(t, CHECK_RUN)
    item = await take(t)
    await t.outbox.mark_maybe_created(item)
    await t.outbox.created(item, 99, "abc")
    await t.outbox.done(item, NOW)
    await want(t, CHECK_RUN)
    item = await take(t)
    assert (item.remote_id, item.remote_head, item.maybe_created) == (99, "abc", False)
    await t.outbox.lost(item)
    await t.outbox.retry(item, at=NOW, error="gone")
    item = await take(t)
    assert (item.remote_id, item.remote_head, item.maybe_created) == (None, None, False)


async def test_crash_while_creating_leaves_the_item_due_and_unsure(t: Transaction) -> None:
    """Who takes over from a sender that died knows that a comment may stand already."""
    await want(t)
    await t.outbox.mark_maybe_created(await take(t, owner="died"))
    assert await t.outbox.next_due() == NOW + LEASE
    again = await take(t, now=NOW + LEASE)
    assert (again.maybe_created, again.remote_id, again.attempts) == (True, None, 0)


async def test_created_by_a_sender_whose_lease_ended_is_still_noted(t: Transaction) -> None:
    """That a comment exists is a fact for every sender; to finish the outbox item is for its holder."""
    await want(t)
    late = await take(t, owner="late")
    holder = await take(t, now=NOW + LEASE)
    await t.outbox.created(late, 99)
    await t.outbox.done(late, NOW + LEASE)
    await t.outbox.retry(late, at=NOW, error="e")
    await t.outbox.dead(late, "e", NOW, retryable=True)
    assert await t.outbox.next_due() == NOW + 2 * LEASE
    await t.outbox.done(holder, NOW + LEASE)
    assert await t.outbox.next_due() is None
    await want(t)
    assert (await take(t)).remote_id == 99


async def test_retry_counts_and_waits_unless_something_newer_is_wanted(t: Transaction) -> None:
    """A failure is retried later and counted; something new has had no failure yet and does not wait for it."""
    await want(t)
    await t.outbox.retry(await take(t), at=NOW + SOON, error="no answer")
    assert await t.outbox.claim(owner="w", now=NOW, lease=LEASE) is None
    item = await take(t, now=NOW + SOON)
    assert item.attempts == 1
    await want(t, now=NOW + SOON)
    await t.outbox.retry(item, at=NOW + LEASE, error="no answer")
    assert (await take(t, now=NOW + SOON)).attempts == 0


async def test_label_removal_is_forgotten_when_done(t: Transaction) -> None:
    """A label taken off leaves nothing behind; one that is wanted off again meanwhile is taken off again."""
    await want(t, LABEL)
    item = await take(t)
    assert (item.label, item.notice) == ("merge-queue", None)
    await want(t, LABEL)
    await t.outbox.done(item, NOW)
    item = await take(t)
    await t.outbox.done(item, NOW)
    await want(t, LABEL)
    assert (await take(t)).version == 1


async def test_label_wanted_on_again_is_set_after_the_removal_that_is_on_its_way(t: Transaction) -> None:
    """The last request counts: the sender of the older one cannot finish the row of the newer one."""
    await want(t, LABEL)
    half_way = await take(t)
    assert (half_way.label, half_way.label_on) == ("merge-queue", False)
    await t.outbox.want_label(REPOSITORY, 1, "Merge-Queue", on=True, due=NOW)
    assert await t.outbox.wanted_labels(REPOSITORY.id, 1) == {"merge-queue": True}
    assert await t.outbox.claim(owner="other", now=NOW, lease=LEASE) is None, "the removal may still arrive"
    await t.outbox.done(half_way, NOW)
    newer = await take(t)
    assert (newer.label, newer.label_on) == ("merge-queue", True)
    await t.outbox.done(newer, NOW)
    assert await t.outbox.wanted_labels(REPOSITORY.id, 1) == {}


async def test_label_has_a_state_of_its_own(t: Transaction) -> None:
    """Each label of each pull request is sent by itself; none overwrites another, or the comment."""
    await want(t)
    for number, label, on in ((1, "merge-queue", False), (1, "ship", True), (2, "ship", False)):
        await t.outbox.want_label(REPOSITORY, number, label, on=on, due=NOW)
    assert await t.outbox.wanted_labels(REPOSITORY.id, 1) == {"merge-queue": False, "ship": True}
    assert await t.outbox.wanted_labels(REPOSITORY.id, 2) == {"ship": False}
    assert await t.outbox.wanted_labels(REPOSITORY.id, 3) == {}
    assert len({(await take(t)).id for _ in range(4)}) == 4


async def test_rename_reaches_items_on_their_way(t: Transaction) -> None:
    """An item is sent to the present name of its repository."""
    await want(t)
    renamed = replace(REPOSITORY, name="missile")
    await t.repositories.refresh(renamed)
    assert (await take(t)).repository == renamed


async def test_release_all_at_the_start_of_the_only_process_frees_what_the_last_one_held(t: Transaction) -> None:
    """After a restart no item waits for the lease of a process that is no more."""
    await want(t)
    held = await take(t, owner="before")
    await t.outbox.release_all()
    assert (await take(t, owner="after")).id == held.id


async def test_purge_forgets_only_what_is_long_finished(t: Transaction) -> None:
    """Items that are due, recent, or of a queued pull request are kept."""
    main = await queue(t)
    for number in (1, 2, 3):
        await want(t, number=number)
        await t.outbox.done(await take(t), NOW)
    for number in (2, 3):
        await stand(t, main, number)
    await want(t, number=4)
    await t.outbox.want(COMMENT, OTHER, 2, due=NOW, notice=notice())
    assert await t.outbox.purge(NOW) == 0
    assert await t.outbox.purge(NOW + TICK) == 1
    assert await t.outbox.next_due() == NOW
    for number in (1, 2, 3):
        await want(t, number=number)
    versions = {item.number: item.version for item in [await take(t) for _ in range(5)] if item.number != 4}
    assert versions[1] == 1, "forgotten and started again"
    assert versions[3] == 2, "kept"


async def test_claim_by_many_senders_at_once_gives_each_item_to_one(store: Store) -> None:
    """However many senders ask at the same time, no item is sent twice."""
    async with store.transaction() as t:
        for number in range(30):
            await want(t, number=number)

    async def work(owner: str) -> list[int]:
        claimed: list[int] = []
        while True:
            async with store.transaction() as t:
                item = await t.outbox.claim(owner=owner, now=NOW, lease=LEASE)
            if item is None:
                return claimed
            claimed.append(item.number)

    claimed = [number for done in await asyncio.gather(*(work(f"w{n}") for n in range(8))) for number in done]
    assert sorted(claimed) == list(range(30))
