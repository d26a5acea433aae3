"""Slots: fair, bounded, never lost, and held through retries."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.concurrency.slots import Slots, SlotsBusy, SlotsStatus

NOW, BACKGROUND = RequestPriority.NOW, RequestPriority.BACKGROUND
SECOND = timedelta(seconds=1)


class Clock:
    def __init__(self) -> None:
        self.instant = datetime(2026, 1, 1, tzinfo=UTC)

    def now(self) -> datetime:
        return self.instant

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("slots do not sleep")


class Users:
    """People who ask for slots, and what became of each."""

    def __init__(self, slots: Slots, clock: Clock) -> None:
        self.slots = slots
        self.clock = clock
        self.granted: list[str] = []
        self._ends: dict[str, asyncio.Event] = {}
        self._kept: dict[str, timedelta] = {}
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def ask(self, name: str, priority: RequestPriority = NOW, holder: str | None = None) -> None:
        """`name` asks and waits in a task of their own."""
        self._ends[name] = asyncio.Event()
        self.tasks[name] = asyncio.create_task(self._use(name, priority, holder))
        await self.rest()

    async def end(self, name: str, *, keep: timedelta | None = None) -> None:
        """`name` is done, or wants to come back within `keep`."""
        self.end_soon(name, keep=keep)
        await self.rest()

    def end_soon(self, name: str, *, keep: timedelta | None = None) -> None:
        if keep is not None:
            self._kept[name] = keep
        self._ends[name].set()

    async def give_up(self, name: str) -> None:
        self.tasks[name].cancel()
        await self.rest()

    async def rest(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    async def _use(self, name: str, priority: RequestPriority, holder: str | None) -> None:
        async with self.slots.hold(priority, holder) as slot:
            self.granted.append(name)
            await self._ends[name].wait()
            if name in self._kept:
                slot.keep(self.clock.now() + self._kept[name])


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(clock: Clock, total: int = 1, *, max_depth: int = 0) -> Users:
    return Users(Slots(total, max_depth=max_depth, clock=clock), clock)


async def test_slots_are_given_in_the_order_of_asking(clock: Clock) -> None:
    """First in, first out within a priority."""
    users = made(clock)
    for name in "abc":
        await users.ask(name)
    assert users.granted == ["a"]
    await users.end("a")
    await users.end("b")
    assert users.granted == ["a", "b", "c"]


async def test_slots_go_to_the_urgent_first_and_to_every_fifth_from_the_background(clock: Clock) -> None:
    """However many urgent calls keep coming, the background is not starved: it gets a slot after four of them."""
    users = made(clock)
    await users.ask("first")
    for name in ("b1", "b2"):
        await users.ask(name, BACKGROUND)
    for number in range(10):
        await users.ask(f"n{number}")
    for _ in range(12):
        await users.end(users.granted[-1])
    assert users.granted == ["first", "n0", "n1", "n2", "n3", "b1", "n4", "n5", "n6", "n7", "b2", "n8", "n9"]


async def test_slots_with_a_line_that_is_full_refuse_at_once(clock: Clock) -> None:
    """Back-pressure: excess callers are rejected, instead of waiting for an hour; a free slot takes anybody."""
    users = made(clock, max_depth=2)
    for name in "abc":
        await users.ask(name)
    with pytest.raises(SlotsBusy, match="2"):
        async with users.slots.hold(NOW):
            raise AssertionError("there was no room")
    assert users.slots.status() == SlotsStatus(
        rt_queue=2, be_queue=0, total_slots=1, available_slots=0, accepting=False, max_queue_depth=2
    )
    await users.end("a")
    await users.ask("d", BACKGROUND)
    assert (users.slots.status().be_queue, users.granted) == (1, ["a", "b"])


async def test_slots_whose_waiter_gives_up_are_not_lost(clock: Clock) -> None:
    """A waiter that is cancelled leaves the line; the others move up."""
    users = made(clock)
    for name in "abc":
        await users.ask(name)
    await users.give_up("b")
    assert users.slots.status().rt_queue == 1
    await users.end("a")
    await users.end("c")
    assert (users.granted, users.slots.status().available_slots) == (["a", "c"], 1)


async def test_slots_granted_to_one_who_gives_up_in_that_moment_go_to_the_next(clock: Clock) -> None:
    """The grant and the cancellation may meet: the slot passes on."""
    users = made(clock)
    for name in "abc":
        await users.ask(name)
    users.end_soon("a")
    await asyncio.sleep(0)
    assert users.slots.status().rt_queue == 1, "b has been granted the slot, and does not know yet"
    await users.give_up("b")
    assert users.granted == ["a", "c"]
    await users.end("c")
    assert users.slots.status().available_slots == 1


async def test_slot_kept_for_a_retry_is_had_at_once_when_its_holder_comes_back(clock: Clock) -> None:
    """A retry does not queue again behind all calls that came meanwhile."""
    users = made(clock, 2)
    await users.ask("try 1", holder="job:1")
    await users.ask("other")
    await users.ask("waiting")
    await users.end("try 1", keep=3 * SECOND)
    assert users.slots.status().available_slots == 0
    clock.instant += 2 * SECOND
    await users.ask("try 2", holder="job:1")
    assert users.granted == ["try 1", "other", "try 2"]
    await users.end("try 2")
    assert users.granted[-1] == "waiting"


async def test_slot_kept_for_one_who_does_not_come_frees_itself(clock: Clock) -> None:
    """A reservation has an end; a later caller then waits for that slot like any other."""
    users = made(clock, 2)
    await users.ask("try 1", holder="job:1")
    await users.end("try 1", keep=3 * SECOND)
    assert users.slots.status().available_slots == 1
    clock.instant += 3 * SECOND
    assert users.slots.status().available_slots == 2


async def test_slot_is_not_kept_for_longer_than_short_retries_take(clock: Clock) -> None:
    """A caller that waits for half a minute gives the slot back meanwhile."""
    users = made(clock, 2)
    await users.ask("try 1", holder="job:1")
    await users.end("try 1", keep=30 * SECOND)
    assert users.slots.status().available_slots == 2


async def test_slot_without_a_named_holder_is_not_kept(clock: Clock) -> None:
    """No caller could come back for it."""
    users = made(clock, 2)
    await users.ask("try 1")
    await users.end("try 1", keep=3 * SECOND)
    assert users.slots.status().available_slots == 2


async def test_slots_kept_are_half_of_all_at_most(clock: Clock) -> None:
    """Those who fail and come back never hold up those who would succeed."""
    users = made(clock, 4)
    for number in range(4):
        await users.ask(f"try {number}", holder=f"job:{number}")
    for number in range(4):
        await users.end(f"try {number}", keep=3 * SECOND)
    assert users.slots.status().available_slots == 2


async def test_slot_kept_when_the_clock_is_set_back_is_free(clock: Clock) -> None:
    """A reservation does not last for an hour because the clock was wrong."""
    users = made(clock, 2)
    await users.ask("try 1", holder="job:1")
    await users.end("try 1", keep=3 * SECOND)
    clock.instant -= timedelta(hours=1)
    assert users.slots.status().available_slots == 2


async def test_slots_whose_user_fails_are_free_again(clock: Clock) -> None:
    """An error in the body is the body's."""
    slots = Slots(1, max_depth=0, clock=clock)
    with pytest.raises(LookupError):
        async with slots.hold(NOW):
            raise LookupError
    assert slots.status().available_slots == 1


def test_slots_without_any_are_refused(clock: Clock) -> None:
    """Everybody would wait for ever."""
    with pytest.raises(ValueError, match="at least one"):
        Slots(0, max_depth=0, clock=clock)
