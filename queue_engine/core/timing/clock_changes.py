"""Detect clock jumps: people and NTP set the system's clock, while monotonic time runs evenly.

`queue_engine.core.database.instants` says what it is for, and names the document that promises it.
"""

import time
from collections.abc import Callable
from datetime import timedelta

from queue_engine.core.timing.clock import Clock


def steady() -> float:
    """Seconds that have passed since some instant, those in which the machine slept included where it can tell."""
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if boot is None else time.clock_gettime(boot)


class ClockChange:
    """Measures how far a clock was set, by comparing what it says with the time that has passed."""

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
