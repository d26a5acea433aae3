from datetime import UTC, datetime, timedelta

import pytest

from queue_engine.core.timing.clock import ClockChange, steady

HOUR = timedelta(hours=1)


class Wall:
    """A clock on the wall that somebody sets, and the time that passes."""

    def __init__(self) -> None:
        self.shown = datetime(2026, 1, 1, tzinfo=UTC)
        self.passed = 5000.0

    def now(self) -> datetime:
        return self.shown

    async def sleep(self, duration: timedelta) -> None:
        raise AssertionError("nobody sleeps here")

    def pass_time(self, duration: timedelta) -> None:
        self.shown += duration
        self.passed += duration.total_seconds()


@pytest.mark.parametrize("jump", [HOUR, -HOUR, timedelta(days=4000), timedelta(days=-4000)])
def test_clock_changes_are_reported_once_and_by_how_much(jump: timedelta) -> None:
    """Time that passes is none; a clock that was set is, in either direction."""
    wall = Wall()
    jumps = ClockChange(wall, lambda: wall.passed)
    wall.pass_time(HOUR)
    assert abs(jumps.since_last()) < timedelta(milliseconds=1)
    wall.pass_time(HOUR)
    wall.shown += jump
    assert abs(jumps.since_last() - jump) < timedelta(milliseconds=1)
    wall.pass_time(HOUR)
    assert abs(jumps.since_last()) < timedelta(milliseconds=1)


def test_steady_time_does_not_run_backwards() -> None:
    """The system has a clock that no person sets."""
    assert steady() <= steady()
