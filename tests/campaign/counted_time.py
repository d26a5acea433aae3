"""Time that counts for a campaign: seconds as they would have passed had the machine been the campaign's alone.

A second in which the campaign's processes wait for time to pass counts in full, and one in which they wanted a
processor as far as they got one. Seconds in which the database is down on purpose do not count.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path

_TICK = 0.25
_POLL = 0.05


class CountedTime:
    """A clock that stops while no process could work."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.wall = 0.0
        """Seconds in all."""
        self._stopped = False

    @asynccontextmanager
    async def running(self, database: Callable[[], int | None]) -> AsyncIterator[None]:
        """Count meanwhile. `database` returns the process id of the database's server, which is none of ours."""
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
                self.seconds += counted(now - last, *_since(before, after), processors=os.cpu_count() or 1)
            last, before = now, after


def counted(passed: float, ran: float, waited: float, *, processors: int) -> float:
    """How many of the seconds that passed count, if processes ran and waited for a processor for so long together."""
    wanted = min(ran + waited, processors * passed)
    if wanted <= 0 or passed <= 0:
        return passed
    busy = min(1.0, wanted / passed)
    return passed * (1 - busy + busy * min(1.0, ran / wanted))


_Used = dict[int, tuple[float, float]]
"""By process: seconds that it ran, and that it was ready to run without a processor."""


def _since(before: _Used, after: _Used) -> tuple[float, float]:
    ran = waited = 0.0
    for pid, (its_ran, its_waited) in after.items():
        ran_before, waited_before = before.get(pid, (0.0, 0.0))
        ran += max(0.0, its_ran - ran_before)
        waited += max(0.0, its_waited - waited_before)
    return ran, waited


def _used(roots: set[int | None]) -> _Used:
    """Of these processes and all that descend from them, by the scheduler; none without such a figure (not Linux)."""
    used: _Used = {}
    for pid in _descending_from(roots):
        with suppress(OSError, ValueError):
            ran, waited, _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
            used[pid] = ran / 1e9, waited / 1e9
    return used


def _descending_from(roots: set[int | None]) -> set[int]:
    parents: dict[int, int] = {}
    with suppress(OSError):
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with suppress(OSError):
                    fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                    parents[int(entry.name)] = int(fields[1])
    ours = {pid for pid in parents if pid in roots}
    while more := {pid for pid, parent in parents.items() if parent in ours} - ours:
        ours |= more
    return ours
