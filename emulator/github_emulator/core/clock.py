"""Time, injected: nothing in the emulator asks the operating system for the time except `SystemClock`."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol


class Clock(Protocol):
    """A source of time that knows how long to wait for an instant."""

    def now(self) -> datetime:
        """The current instant, timezone-aware, in UTC."""
        ...

    def seconds_until(self, when: datetime) -> float | None:
        """Real seconds until this clock shows `when`, never negative; None when it only moves by calls."""
        ...


class SystemClock:
    """The operating system's time, running `speed` times as fast from construction on."""

    def __init__(self, speed: float = 1.0) -> None:
        self.speed = speed
        self._start = datetime.now(UTC)
        self._zero = time.monotonic()

    def now(self) -> datetime:
        """The current instant in UTC."""
        return self._start + timedelta(seconds=(time.monotonic() - self._zero) * self.speed)

    def seconds_until(self, when: datetime) -> float | None:
        """Real seconds until this clock shows `when`, never negative."""
        return max(0.0, (when - self.now()).total_seconds() / self.speed)


class ManualClock:
    """A clock that stays at one instant until it is moved."""

    def __init__(self, start: datetime = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)) -> None:
        self._now = start

    def now(self) -> datetime:
        """The instant it was last moved to."""
        return self._now

    def seconds_until(self, when: datetime) -> float | None:
        """0 for the past and the present; the future comes by hand only."""
        return 0.0 if when <= self._now else None

    def advance(self, duration: timedelta) -> None:
        """Move forward by `duration`."""
        self.set(self._now + duration)

    def set(self, when: datetime) -> None:
        """Move forward to `when`. Raises ValueError for an instant that has passed."""
        if when < self._now:
            raise ValueError(f"time does not run backwards: {when} is before {self._now}")
        self._now = when
