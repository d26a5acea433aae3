"""A bounded set of running tasks."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import structlog

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
