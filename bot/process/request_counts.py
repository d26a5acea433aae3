"""Store how many requests this process sent to GitHub for each repository, for the statistics.

A killed process loses the counts of its last minute.
"""

from collections import Counter
from datetime import datetime, timedelta

import structlog

from queue_engine.core.timing.clock import Clock
from queue_engine.store import Store
from queue_engine.store.departures import day_of

INTERVAL = timedelta(minutes=1)
"""Between two writes, while there are requests to count."""

_log = structlog.get_logger("imq.report")


class RequestCounts:
    """Writes the counts that the gateway keeps."""

    def __init__(self, store: Store, clock: Clock, counts: Counter[int]) -> None:
        """Take the counts, which this empties."""
        self._store, self._clock, self._counts = store, clock, counts
        self._due = clock.now() + INTERVAL

    async def run_due(self) -> bool:
        """Store the counts if it is due; return whether it was."""
        now = self._clock.now()
        if self._due - INTERVAL <= now < self._due:
            return False
        await self._write(now)
        self._due = now + INTERVAL
        return True

    async def next_due(self) -> datetime | None:
        """Return when the next write is due."""
        return self._due

    async def close(self) -> None:
        """Store the last counts; without a database they are lost."""
        try:
            await self._write(self._clock.now())
        except Exception as error:
            _log.warning("requests_not_counted", exc_info=error)

    async def _write(self, now: datetime) -> None:
        if not (counts := dict(self._counts)):
            return
        async with self._store.transaction() as tx:
            await tx.statistics.count_requests(day_of(now), counts)
        # Requests that were sent meanwhile stay.
        self._counts.subtract(counts)
        for each in [repository_id for repository_id, count in self._counts.items() if not count]:
            del self._counts[each]
