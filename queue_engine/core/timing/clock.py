"""Injected time: IMQ reads the operating system's time only through a `Clock`."""

import asyncio
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
