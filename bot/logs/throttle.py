"""Log repeated lines once a minute, with a count."""

from datetime import datetime, timedelta

from queue_engine.core.timing.clock import Clock

_BETWEEN = timedelta(minutes=1)


class LogThrottle:
    """Counts equal lines between those that are logged. Their texts must be few, because all are kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._suppressed: dict[str, tuple[datetime, int]] = {}

    def count(self, line: str) -> int | None:
        """Return how many such lines were suppressed since the last one; None if this one is suppressed, too."""
        now = self._clock.now()
        written, repeats = self._suppressed.get(line, (now - _BETWEEN, 0))
        if timedelta(0) <= now - written < _BETWEEN:
            self._suppressed[line] = written, repeats + 1
            return None
        self._suppressed[line] = now, 0
        return repeats
