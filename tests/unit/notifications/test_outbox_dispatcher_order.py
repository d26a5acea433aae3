"""The outbox dispatcher's items in order for one pull request, and at the same time for several."""

import asyncio
from datetime import datetime, timedelta

import pytest

from notifications.outbox_dispatcher import LEASE, OutboxDispatcher
from queue_engine.core.concurrency.wakeup import WakeupListener
from queue_engine.domain.notice import NoticeKind
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxItem, OutboxKind
from tests.support.real_time import LIMIT
from tests.unit.notifications.github_double import MovedClock, Post
from tests.unit.notifications.notices import NOW, of_kind
from tests.unit.notifications.outbox_items import want, want_label_off


class Gate:
    """Holds the calls for one pull request until opened, and remembers who was in a call at the same time."""

    def __init__(self, *held: int) -> None:
        self.held = held
        self.opened = asyncio.Event()
        self.entered: list[tuple[str, int]] = []
        self._changed = asyncio.Condition()

    async def __call__(self, method: str, number: int) -> None:
        """Hold a call until the gate opens."""
        async with self._changed:
            self.entered.append((method, number))
            self._changed.notify_all()
        if number in self.held:
            await self.opened.wait()

    async def wait_for(self, count: int) -> None:
        """Until so many calls were begun."""
        async with self._changed:
            await self._changed.wait_for(lambda: len(self.entered) >= count)


async def test_items_of_one_pull_request_go_one_after_another(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """While its comment is on the way, neither its check run nor its label is touched."""
    post.before = gate = Gate(42)
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.CHECKING))
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await want_label_off(store)
    running = asyncio.ensure_future(dispatcher.run_due())
    async with asyncio.timeout(LIMIT):
        await gate.wait_for(1)
        # Once nothing is left to claim the others have had their chance.
        while await _unclaimed(store):
            pass
    assert len(gate.entered) == 1
    gate.opened.set()
    await running
    assert len(gate.entered) == 3


async def test_item_that_hangs_delays_no_other_pull_request(
    store: Store, dispatcher: OutboxDispatcher, post: Post
) -> None:
    """The comments of ten others arrive while three items of one pull request wait for GitHub."""
    post.before = gate = Gate(42)
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.CHECKING))
    await want(store, OutboxKind.CHECK_RUN, of_kind(NoticeKind.CHECKING))
    await want_label_off(store)
    for number in range(1, 11):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    running = asyncio.ensure_future(dispatcher.run_due())
    async with asyncio.timeout(LIMIT):
        await gate.wait_for(11)
    gate.opened.set()
    await running
    assert len(post.comments) == 11


@pytest.mark.parametrize("hangs", [False, True])
async def test_burst_that_begins_with_one_item_is_sent_side_by_side(
    store: Store, dispatcher: OutboxDispatcher, post: Post, hangs: bool
) -> None:
    """P5: the first words on many pull requests came one after another, because one alone was due at first."""
    woken = WakeupListener()
    dispatcher.wake_by(woken)
    post.before = first = Gate(1)
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), 1)
    running = asyncio.ensure_future(dispatcher.run_due())
    async with asyncio.timeout(LIMIT):
        await first.wait_for(1)
        post.before = gate = Gate(*range(2, 8))
        for number in range(2, 8):
            await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
        if hangs:
            woken.wake()
        else:
            first.opened.set()
        await gate.wait_for(6)
    for each in (first, gate):
        each.opened.set()
    await running
    assert len(post.comments) == 7


async def test_item_of_another_process_is_claimed_once_that_has_left_it_for_a_while(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of four workers that sent something claimed what the others had just stored, mostly in vain."""
    wakeups, woken = asyncio.Queue[bool](), WakeupListener(shared=True)
    asked, next_due, claim = asyncio.Event(), dispatcher.next_due, dispatcher._claim

    async def wait(_at_most: timedelta) -> bool:
        return await wakeups.get()

    monkeypatch.setattr(woken, "wait", wait)
    dispatcher.wake_by(woken)

    async def counted() -> datetime | None:
        due = await next_due()
        asked.set()
        return due

    async def claimed(at_most: int) -> list[OutboxItem]:
        found = await claim(at_most)
        asked.set()
        return found

    monkeypatch.setattr(dispatcher, "next_due", counted)
    monkeypatch.setattr(dispatcher, "_claim", claimed)
    post.before = gate = Gate(1)
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), 1)
    running = asyncio.ensure_future(dispatcher.run_due())
    try:
        async with asyncio.timeout(LIMIT):
            await gate.wait_for(1)
            await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), 2)
            for _ in range(2):
                asked.clear()
                await wakeups.put(False)
                await asked.wait()
            assert await _unclaimed(store)
            clock.move(woken.delay)
            await wakeups.put(False)
            await gate.wait_for(2)
    finally:
        gate.opened.set()
        await running
    assert len(post.comments) == 2


async def test_dispatcher_serves_only_a_few_pull_requests_at_once(store: Store, post: Post, clock: MovedClock) -> None:
    """GitHub's secondary limits do not like crowds. What had no room is sent as soon as there is some."""
    post.before = gate = Gate(*range(1, 6))
    for number in range(1, 6):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    dispatcher = OutboxDispatcher(store, post, clock, owner="a", random=lambda: 0.5, concurrency=2)
    dispatcher.wake_by(WakeupListener(shared=True))
    running = asyncio.ensure_future(dispatcher.run_due())
    async with asyncio.timeout(LIMIT):
        await gate.wait_for(2)
        for _ in range(3):
            await _unclaimed(store)
    assert len(gate.entered) == 2
    gate.opened.set()
    await running
    assert len(post.comments) == 5


async def test_dispatcher_ends_what_it_sends_and_claims_no_more_after_a_fault_of_the_database(
    store: Store, dispatcher: OutboxDispatcher, post: Post, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P2: items that it has claimed would wait for the end of their leases."""
    claim, claims, again = dispatcher._claim, list[int](), asyncio.Event()

    async def faulty(at_most: int) -> list[OutboxItem]:
        claims.append(at_most)
        if len(claims) > 1:
            again.set()
            raise OSError("the database is gone")
        return await claim(at_most)

    monkeypatch.setattr(dispatcher, "_claim", faulty)
    post.before = gate = Gate(1)
    for number in (1, 2):
        await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED), number)
    running = asyncio.ensure_future(dispatcher.run_due())
    async with asyncio.timeout(LIMIT):
        await again.wait()
    gate.opened.set()
    with pytest.raises(OSError, match="is gone"):
        await running
    assert (len(claims), len(post.comments)) == (2, 2)


async def test_item_reached_after_its_lease_is_left_to_the_next_dispatcher(
    store: Store, dispatcher: OutboxDispatcher, post: Post, clock: MovedClock
) -> None:
    """Another dispatcher may have sent an item that waited too long behind a hanging one: it is not sent twice."""
    post.before = gate = Gate(42)
    await want_label_off(store)
    await want(store, OutboxKind.COMMENT, of_kind(NoticeKind.QUEUED))
    running = asyncio.ensure_future(dispatcher.run_due())
    async with asyncio.timeout(LIMIT):
        await gate.wait_for(1)
        while await _unclaimed(store):
            pass
    clock.move(LEASE)
    post.before = None
    await OutboxDispatcher(store, post, clock, owner="b", random=lambda: 0.5).run_due()
    gate.opened.set()
    await running
    (comment,) = post.comments_on(42)
    assert len(comment.bodies) == 1


async def _unclaimed(store: Store) -> bool:
    """Whether an item is still unclaimed."""
    async with store.reading() as tx:
        due = await tx.outbox.next_due()
    return due is not None and due <= NOW
