"""A bounded set of running tasks, the leases renewed under them, and the order in which they end."""

import asyncio
from bisect import insort
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Hashable, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime, timedelta
from itertools import count
from typing import Any, Protocol

import structlog

from queue_engine.core.timing.clock import Clock

_log = structlog.get_logger("imq.pool")


class Pool:
    """At most `limit` tasks at once. A task that raises is logged and harms no other."""

    def __init__(self, limit: int, *, done: Callable[[], None] = lambda: None) -> None:
        self._limit = limit
        self._done = done
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def free(self) -> int:
        """How many more tasks may start now."""
        return self.free_within(self._limit)

    def free_within(self, limit: int) -> int:
        """The same under a lower limit than its own."""
        return min(limit, self._limit) - len(self._tasks)

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        """Start one task; `done` is called when it ends."""
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)

    async def join(self) -> None:
        """Wait until every task has ended."""
        while self._tasks:
            await asyncio.wait(self._tasks)

    async def cancel(self) -> None:
        """Cancel what still runs and wait for it to end."""
        for task in self._tasks:
            task.cancel()
        await self.join()

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.error("task_failed", exc_info=error)
        self._done()


Renew = Callable[[datetime], Awaitable[bool]]
"""Prolongs the lease until an instant; False when it is no longer ours."""


class HeldLease:
    """Whether a lease is still held, by its last renewal."""

    def __init__(self) -> None:
        self.still = True


@asynccontextmanager
async def running(work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run a task while the body runs, and cancel it at the end. Raises the task's own error then."""
    task = asyncio.create_task(work)
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        if not task.cancelled():
            task.result()


@asynccontextmanager
async def kept(clock: Clock, duration: timedelta, renew: Renew) -> AsyncIterator[HeldLease]:
    """Renew a lease at every third of its `duration` while the body runs; it expires if all renewals fail."""
    held = HeldLease()

    async def renew_until_end() -> None:
        while held.still:
            await clock.sleep(duration / 3)
            try:
                held.still = await renew(clock.now() + duration)
            except Exception as error:
                _log.warning("lease_not_renewed", exc_info=error)

    async with running(renew_until_end()):
        yield held


class OrderWait(Protocol):
    """Waits until all earlier tasks of the key have ended, or the `first` of those that ran when this one began."""

    def __call__(self, first: int | None = None, /) -> Awaitable[None]:
        """Wait for all of them, or for so many."""


class KeyOrder:
    """Orders tasks by key. A slow task delays only later ones of its key, and only when they wait."""

    def __init__(self) -> None:
        self._standing: defaultdict[Hashable, list[tuple[int, int, asyncio.Event]]] = defaultdict(list)
        self._begun = count()

    @contextmanager
    def enter(self, key: Hashable, rank: int = 0) -> Iterator[OrderWait]:
        """Join the tasks of a key while the body runs. Gives a function that waits for all earlier ones.

        Those of a lower `rank` are earlier, also if they begin later; of equal ones, those that began before.
        """
        line, own = self._standing[key], (rank, next(self._begun), asyncio.Event())
        insort(line, own)
        ahead = tuple(line[: line.index(own)])

        async def wait(first: int | None = None, /) -> None:
            for *_, gone in ahead[:first]:
                await gone.wait()
            while first is None and line[0] is not own:
                await line[0][2].wait()

        try:
            yield wait
        finally:
            own[2].set()
            line.remove(own)
            if not line:
                del self._standing[key]
