"""Time that counts for a campaign: as much of each second as the machine gave it.

What other programs take of the processors does not count, nor the seconds in which the database is down on purpose.
What kills, starts and leases cost the processes of the campaign counts.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

_TICK = 0.25
_POLL = 0.05


class CountedTime:
    """A clock that stands still while nobody could work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wall = 0.0
        """Seconds in all."""
        self._stopped = False

    @asynccontextmanager
    async def running(self, database: Callable[[], int | None]) -> AsyncIterator[None]:
        """Count meanwhile. `database` tells the process id of the database's server, which is none of ours."""
        counting = asyncio.create_task(self._run(database))
        try:
            yield
        finally:
            counting.cancel()
            await asyncio.gather(counting, return_exceptions=True)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Nothing counts within."""
        self._stopped = True
        try:
            yield
        finally:
            self._stopped = False

    async def sleep(self, seconds: float) -> None:
        """Return when so many seconds have counted."""
        end = self.seconds + seconds
        while self.seconds < end:  # noqa: ASYNC110 - time is no event
            await asyncio.sleep(_POLL)  # no-sleep-ok: the same

    async def _run(self, database: Callable[[], int | None]) -> None:
        last, before = time.monotonic(), _used({os.getpid(), database()})
        while True:
            await asyncio.sleep(_TICK)  # no-sleep-ok: real processes, real time
            now, after = time.monotonic(), _used({os.getpid(), database()})
            self.wall += now - last
            if not self._stopped:
                self.seconds += (now - last) * _share(before, after)
            last, before = now, after


@dataclass(frozen=True, slots=True)
class _Used:
    """Ticks of all processors since the machine was started: in all, idle, and by the campaign."""

    total: int
    idle: int
    ours: int


def _share(before: _Used, after: _Used) -> float:
    """The part of the processors that was the campaign's, used or not; all of it where nobody tells (not Linux)."""
    if (total := after.total - before.total) <= 0:
        return 1.0
    return min(1.0, max(0.0, (after.idle - before.idle + after.ours - before.ours) / total))


def _used(roots: set[int | None]) -> _Used:
    try:
        ticks = [int(each) for each in Path("/proc/stat").read_text().splitlines()[0].split()[1:9]]
    except OSError:
        return _Used(0, 0, 0)
    return _Used(sum(ticks), ticks[3] + ticks[4], _used_by(roots))


def _used_by(roots: set[int | None]) -> int:
    """By these processes and all that descend from them, the ended ones included."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(fields[1])
                used[int(entry.name)] = sum(map(int, fields[11:15]))
    ours = {pid for pid in used if pid in roots}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return sum(used[pid] for pid in ours)
