"""Injected time: IMQ reads the operating system's time only through a `Clock`. People and NTP set it: clocks jump."""

import asyncio
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of time. Tests inject one that they move by hand."""

    def now(self) -> datetime:
        """The current instant, timezone-aware, in UTC."""
        ...

    async def sleep(self, duration: timedelta) -> None:
        """Return after `duration` of this clock's time has passed."""
        ...


class SystemClock:
    """The operating system's time."""

    def now(self) -> datetime:
        """The current instant in UTC."""
        return datetime.now(UTC)

    async def sleep(self, duration: timedelta) -> None:
        """Sleep for `duration` of real time; zero or negative durations yield once."""
        await asyncio.sleep(max(0.0, duration.total_seconds()))


def steady() -> float:
    """Seconds that have passed since some instant, those in which the machine slept included where it can tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClockChange:
    """Measures how far a clock was set, by comparing what it says with the time that has passed.

    `queue_engine.core.database.instants` says what that is for, and names the document that promises it.
    """

    def __init__(self, clock: Clock, passed: Callable[[], float] = steady) -> None:
        """`passed` gives monotonic seconds."""
        self._clock = clock
        self._passed = passed
        self._apart = self._difference()

    def since_last(self) -> timedelta:
        """How far the clock was set since this was last asked: ahead if positive, back if negative."""
        before, self._apart = self._apart, self._difference()
        return timedelta(seconds=self._apart - before)

    def _difference(self) -> float:
        return self._clock.now().timestamp() - self._passed()
