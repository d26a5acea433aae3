"""The feed passes each event once, whatever the order in which events become visible, and waits for no reader."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

from bot.web.live.feed import MAX_REPLAYED, Feed, FeedReader
from github_emulator import ManualClock
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import TimelineEvent
from queue_engine.store import Store

NOW = datetime(2026, 1, 1, tzinfo=UTC)


class Rows:
    """A timeline whose rows become visible in any order."""

    def __init__(self) -> None:
        self.ids: set[int] = set()
        self.reads = 0

    def show(self, *ids: int) -> None:
        """Commit these events."""
        self.ids |= set(ids)

    async def latest(self, limit: int) -> Sequence[TimelineEvent]:
        self.reads += 1
        return [event(each) for each in sorted(self.ids, reverse=True)[:limit]]

    async def since(self, after: int, *, limit: int, also: Sequence[int] = ()) -> Sequence[TimelineEvent]:
        self.reads += 1
        return [event(each) for each in sorted(self.ids) if each > after or each in also][:limit]

    @asynccontextmanager
    async def reading(self) -> Any:
        yield SimpleNamespace(timeline=self)

    async def read(self, what: Callable[[Any], Awaitable[Any]]) -> Any:
        return await what(SimpleNamespace(timeline=self))


def event(number: int) -> TimelineEvent:
    return TimelineEvent(NOW, f"event {number}", 7, "main", 1, id=number)


def feed_of(rows: Rows) -> tuple[Feed, ManualClock]:
    clock = ManualClock()
    return Feed(cast(Store, rows), cast(Clock, clock)), clock


async def received(reader: FeedReader, count: int) -> list[tuple[int, int]]:
    """The ids and marks of the next events; there are no others."""
    found = [(each.event.id, each.mark) for each in [await anext(reader.stream) for _ in range(count)]]
    assert reader.stream._events.empty()
    return found


async def test_late_event_is_passed_on_and_the_mark_waits_for_it() -> None:
    """A reader who continues after its mark gets the late event, too."""
    rows = Rows()
    rows.show(1, 2)
    feed, _ = feed_of(rows)
    async with feed.open() as reader:
        rows.show(3, 5)
        await feed.run_due()
        assert await received(reader, 2) == [(3, 3), (5, 3)]
        async with feed.open(after=3) as second:
            assert [each.event.id for each in second.replayed] == [5]
            rows.show(4)
            await feed.run_due()
            assert await received(reader, 1) == [(4, 5)]
            assert await received(second, 1) == [(4, 5)]


async def test_event_that_was_under_way_when_the_feed_began_is_passed_on() -> None:
    """Its id is lower than that of the newest event at the beginning."""
    rows = Rows()
    rows.show(1, 3)
    feed, _ = feed_of(rows)
    async with feed.open() as reader:
        assert reader.mark == 1
        rows.show(2)
        await feed.run_due()
        assert await received(reader, 1) == [(2, 3)]


async def test_number_of_a_transaction_that_was_rolled_back_is_given_up() -> None:
    """After a minute the mark passes it."""
    rows = Rows()
    rows.show(1)
    feed, clock = feed_of(rows)
    async with feed.open() as reader:
        rows.show(3)
        await feed.run_due()
        assert await feed.next_due() is not None
        clock.advance(timedelta(minutes=1))
        await feed.run_due()
        assert await feed.next_due() is None
        rows.show(4)
        await feed.run_due()
        assert await received(reader, 2) == [(3, 1), (4, 4)]


async def test_slow_reader_loses_the_oldest_events_and_holds_up_no_other() -> None:
    """Its stream counts what it lost."""
    rows = Rows()
    feed, _ = feed_of(rows)
    async with feed.open(buffer=2) as slow, feed.open() as quick:
        rows.show(*range(1, 6))
        await feed.run_due()
        assert [number for number, _ in await received(quick, 5)] == [1, 2, 3, 4, 5]
        assert [number for number, _ in await received(slow, 2)] == [4, 5]
        assert slow.stream.missed == 3


async def test_many_readers_cost_one_read_and_none_costs_nothing() -> None:
    """Without readers the feed reads nothing, and forgets where it was."""
    rows = Rows()
    rows.show(1)
    feed, _ = feed_of(rows)
    await feed.run_due()
    assert rows.reads == 0
    async with AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(feed.open()) for _ in range(100)]
        assert feed.readers == 100
        rows.reads = 0
        rows.show(2)
        await feed.run_due()
        assert rows.reads == 1
        assert {(await anext(reader.stream)).event.id for reader in readers} == {2}
    assert feed.readers == 0
    rows.show(3)
    async with feed.open() as reader:
        await feed.run_due()
        assert await received(reader, 0) == []


async def test_reader_who_missed_too_much_reads_again() -> None:
    """So does one that knows events of a database that was replaced."""
    rows = Rows()
    rows.show(*range(1, MAX_REPLAYED + 3))
    feed, _ = feed_of(rows)
    for after, missed, replayed in ((1, True, 0), (2, False, MAX_REPLAYED), (10**9, True, 0), (None, False, 0)):
        async with feed.open(after) as reader:
            assert (reader.missed, len(reader.replayed)) == (missed, replayed)


async def test_events_during_the_opening_of_a_reader_come_once() -> None:
    """Whether they are replayed or streamed."""
    rows = Rows()
    rows.show(1)
    feed, _ = feed_of(rows)
    async with feed.open():
        for number in range(2, 30):
            opening = asyncio.create_task(_ids_after(feed, 1, number))
            rows.show(number)
            await feed.run_due()
            assert sorted(await opening) == list(range(2, number + 1))


async def _ids_after(feed: Feed, after: int, last: int) -> list[int]:
    async with feed.open(after) as reader:
        ids = [each.event.id for each in reader.replayed]
        await feed.run_due()
        while last not in ids:
            ids.append((await anext(reader.stream)).event.id)
        return ids
