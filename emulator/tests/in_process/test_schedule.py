"""Time in the emulator: moved by hand in tests, running fast in a server."""

import asyncio
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from github_emulator import ManualClock, SystemClock
from github_emulator.core.schedule import Schedule
from in_process import LIMIT

SECOND = timedelta(seconds=1)


async def test_schedule_run_due_runs_in_order_of_time_then_of_adding() -> None:
    """What is due runs by its time, and what is due together in the order it was added."""
    clock = ManualClock()
    ran: list[str] = []
    schedule = Schedule(clock)
    for name, delay in (("late", 2), ("first", 1), ("second", 1), ("never", 3)):
        schedule.after(delay * SECOND, partial(ran.append, name))
    clock.advance(2 * SECOND)
    assert await schedule.run_due() == 3
    assert ran == ["first", "second", "late"]
    assert schedule.next_due() == clock.now() + SECOND


async def test_schedule_run_due_runs_what_callbacks_add_for_now() -> None:
    """A callback may plan the next one for the same instant."""
    schedule, ran = Schedule(ManualClock()), []

    async def first() -> None:
        schedule.after(0 * SECOND, lambda: ran.append("second"))

    schedule.after(0 * SECOND, first)
    assert await schedule.run_due() == 2
    assert ran == ["second"]


async def test_schedule_advance_stops_at_every_planned_instant() -> None:
    """Each callback sees the instant it was planned for, however far time is moved at once."""
    clock = ManualClock()
    start, schedule = clock.now(), Schedule(clock)
    instants: list[datetime] = []

    def again() -> None:
        instants.append(clock.now())
        schedule.after(timedelta(minutes=20), again)

    again()
    await schedule.advance(timedelta(hours=1))
    assert instants == [start + timedelta(minutes=20 * step) for step in range(4)]
    assert clock.now() == start + timedelta(hours=1)


async def test_schedule_cancelled_appointment_never_runs() -> None:
    """A cancelled callback is gone, also from `next_due`."""
    schedule, ran = Schedule(ManualClock()), []
    schedule.after(SECOND, lambda: ran.append(1)).cancel()
    assert schedule.next_due() is None
    assert await schedule.advance(2 * SECOND) == 0
    assert not ran


@pytest.mark.process
async def test_schedule_run_on_fast_clock_wakes_for_what_is_added() -> None:
    """A server waits in real time, divided by the clock's speed, and notices new appointments."""
    schedule, stop = Schedule(SystemClock(speed=36_000)), asyncio.Event()
    serving = asyncio.ensure_future(schedule.run(stop))
    hour_passed = asyncio.Event()
    schedule.after(timedelta(hours=10), stop.set)
    schedule.after(timedelta(hours=1), hour_passed.set)
    await asyncio.wait_for(hour_passed.wait(), LIMIT)
    await asyncio.wait_for(serving, LIMIT)


async def test_schedule_run_callback_that_fails_is_reported() -> None:
    """A bug in a callback ends the server instead of vanishing."""
    schedule = Schedule(SystemClock())

    async def broken() -> None:
        raise RuntimeError("a bug")

    schedule.after(0 * SECOND, broken)
    with pytest.raises(RuntimeError, match="a bug"):
        await asyncio.wait_for(schedule.run(asyncio.Event()), LIMIT)


def test_manual_clock_does_not_run_backwards() -> None:
    """Moving a clock into the past is a mistake in the test."""
    clock = ManualClock(datetime(2026, 1, 1, tzinfo=UTC))
    with pytest.raises(ValueError, match="backwards"):
        clock.set(datetime(2025, 1, 1, tzinfo=UTC))
