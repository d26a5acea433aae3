"""What will happen later: CI that takes its time, webhooks on their way, GitHub's own background work."""

import asyncio
import heapq
import inspect
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from github_emulator.core.clock import Clock, ManualClock

Callback = Callable[[], Awaitable[None] | None]


@dataclass(order=True, slots=True)
class ScheduledAction:
    """One callback at one instant; cancelling it is final."""

    when: datetime
    sequence: int
    callback: Callback = field(compare=False, repr=False)
    name: str = field(compare=False)
    cancelled: bool = field(default=False, compare=False)

    def cancel(self) -> None:
        """Never call it. Harmless when it has been called."""
        self.cancelled = True


class Schedule:
    """Callbacks ordered by time, then by when they were added.

    Tests move a ManualClock and call `run_due` or `advance`; a server calls `run`.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self._heap: list[ScheduledAction] = []
        self._sequence = itertools.count()
        self._added = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None

    def at(self, when: datetime, callback: Callback, *, name: str = "") -> ScheduledAction:
        """Call `callback` (sync or async) at `when`; at the next opportunity if that has passed."""
        action = ScheduledAction(when, next(self._sequence), callback, name)
        heapq.heappush(self._heap, action)
        self._added.set()
        return action

    def after(self, delay: timedelta, callback: Callback, *, name: str = "") -> ScheduledAction:
        """Call `callback` when `delay` has passed."""
        return self.at(self.clock.now() + delay, callback, name=name)

    def later(self, delay: timedelta, callback: Callable[[], None], *, name: str = "") -> None:
        """Call `callback` when `delay` has passed; at once, before this returns, when there is none."""
        if delay:
            self.after(delay, callback, name=name)
        else:
            callback()

    def next_due(self) -> datetime | None:
        """When the next callback is due; None when nothing is planned."""
        while self._heap and self._heap[0].cancelled:
            heapq.heappop(self._heap)
        return self._heap[0].when if self._heap else None

    @property
    def under_way(self) -> int:
        """How many async callbacks that `run` started have not ended."""
        return len(self._tasks)

    def pending(self) -> list[str]:
        """Names of what is planned, soonest first."""
        return [action.name for action in sorted(self._heap) if not action.cancelled]

    async def run_due(self) -> int:
        """Run everything due now, one after the other, including what that adds for now. Returns how many ran."""
        count = 0
        while action := self._pop_due():
            result = action.callback()
            if inspect.isawaitable(result):
                await result
            count += 1
        return count

    async def advance(self, duration: timedelta) -> int:
        """Move a ManualClock forward by `duration`, stopping at each planned instant. Returns how many ran."""
        if not isinstance(self.clock, ManualClock):
            raise TypeError("only a ManualClock is moved by hand")
        end = self.clock.now() + duration
        count = await self.run_due()
        while (due := self.next_due()) is not None and due <= end:
            self.clock.set(max(due, self.clock.now()))
            count += await self.run_due()
        self.clock.set(max(end, self.clock.now()))
        return count

    async def run(self, stop: asyncio.Event) -> None:
        """Run callbacks as they become due until `stop` is set; async ones side by side. Raises what they raise."""
        try:
            while not stop.is_set() and self._failure is None:
                self._start_due()
                await self._wait(stop)
        finally:
            await self.close()
        if self._failure is not None:
            raise self._failure

    async def close(self) -> None:
        """Cancel what is under way and forget what is planned."""
        self._heap.clear()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _pop_due(self) -> ScheduledAction | None:
        due = self.next_due()
        return heapq.heappop(self._heap) if due is not None and due <= self.clock.now() else None

    def _start_due(self) -> None:
        while action := self._pop_due():
            result = action.callback()
            if inspect.isawaitable(result):
                task = asyncio.ensure_future(_finish(result))
                self._tasks.add(task)
                task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = self._failure or task.exception()
            self._added.set()

    async def _wait(self, stop: asyncio.Event) -> None:
        due = self.next_due()
        timeout = None if due is None else self.clock.seconds_until(due)
        self._added.clear()
        waits = [asyncio.ensure_future(event.wait()) for event in (stop, self._added)]
        try:
            await asyncio.wait(waits, timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
            await asyncio.gather(*waits, return_exceptions=True)


async def _finish(awaitable: Awaitable[None]) -> None:
    await awaitable
