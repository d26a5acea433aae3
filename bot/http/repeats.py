"""Log lines that strangers can cause once a minute, with a count."""

from datetime import datetime, timedelta

from queue_engine.core.timing.clock import Clock

_BETWEEN = timedelta(minutes=1)


class Repeats:
    """Which of many equal lines are written. Their texts must be few, because all are remembered."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._unwritten: dict[str, tuple[datetime, int]] = {}

    def count(self, line: str) -> int | None:
        """How many such lines were not written since the last one; None if this one is not to be written either."""
        now = self._clock.now()
        written, repeats = self._unwritten.get(line, (now - _BETWEEN, 0))
        if timedelta(0) <= now - written < _BETWEEN:
            self._unwritten[line] = written, repeats + 1
            return None
        self._unwritten[line] = now, 0
        return repeats
