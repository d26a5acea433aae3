"""Slots: a bounded number of concurrent uses, shared fairly between urgent and background work.

A slot can be held through retries. Work here never sleeps while it waits for its next try: it ends, and comes back
as a new call under the same name. So a call that fails for a passing reason keeps the slot reserved for that name until
then, and does not wait again.

Slots are given in the order of arrival within a priority: the urgent first, the background every fifth time. At most
half of them are reserved for a name (`job:7`, `queue:3`), for as long as a request's retries take; reservations run
out without a timer.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.core.concurrency.request_context import RequestPriority
from queue_engine.core.observability.log import logged
from queue_engine.core.timing.clock import Clock

_LONGEST_KEPT = timedelta(seconds=6)
"""The longest wait of a request's retries (`backoff.REQUEST`), and a margin to notice its end."""

_MAX_IN_A_ROW = 4
"""After this many urgent grants in a row a background caller gets a slot, if one waits."""


class SlotsBusy(Exception):
    """Too many callers are waiting; retry later."""


@dataclass(frozen=True, slots=True)
class SlotsStatus:
    """The number of waiting callers by priority (`rt`: now, `be`: background), and of free slots."""

    rt_queue: int
    be_queue: int
    total_slots: int
    available_slots: int
    accepting: bool
    max_queue_depth: int


class Slot:
    """A slot in use; `keep` reserves it for its holder's retry."""

    def __init__(self) -> None:
        self.kept_until: datetime | None = None

    def keep(self, until: datetime) -> None:
        """Reserve the slot for its holder until then. It is given back all the same when that is too far off."""
        self.kept_until = until


@logged("slots")
class Slots:
    """`total` slots. At most half of them are kept for retries at any time, so that the others always move on.

    Reservations that have run out are found when somebody asks or leaves: as long as anybody waits, other slots are
    in use, and their end is such a moment. So no timer is needed.
    """

    def __init__(self, total: int, *, max_depth: int, clock: Clock) -> None:
        """`max_depth` limits the waiting callers of both priorities together; 0 means no limit."""
        if total < 1:
            raise ValueError("there must be at least one slot")
        self._total = total
        self._max_depth = max_depth
        self._clock = clock
        self._busy = 0
        self._kept: dict[str, tuple[datetime, datetime]] = {}
        """By holder: since when, until when."""
        self._lines: dict[RequestPriority, deque[asyncio.Future[None]]] = {
            priority: deque() for priority in RequestPriority
        }
        self._in_a_row = 0
        """Urgent grants since the last grant to a background caller, while one waits."""

    def resize(self, total: int) -> None:
        """Change the number of slots, at least one; slots in use beyond it are removed when they become free."""
        if total != self._total:
            self._total = max(1, total)
            self._share_out()

    @asynccontextmanager
    async def hold(self, priority: RequestPriority, holder: str | None = None) -> AsyncIterator[Slot]:
        """Hold a slot while the body runs, in order of arrival, for `holder` also after it. Raises SlotsBusy."""
        await self._enter(priority, holder)
        slot = Slot()
        try:
            yield slot
        finally:
            self._leave(slot, holder)

    def status(self) -> SlotsStatus:
        """How busy things are now."""
        self._share_out()
        now, background = (self._waiting(priority) for priority in (RequestPriority.NOW, RequestPriority.BACKGROUND))
        free = self._free()
        return SlotsStatus(
            rt_queue=now,
            be_queue=background,
            total_slots=self._total,
            available_slots=free,
            accepting=free > 0 or not self._full(),
            max_queue_depth=self._max_depth,
        )

    async def _enter(self, priority: RequestPriority, holder: str | None) -> None:
        self._share_out()
        if holder is not None and self._kept.pop(holder, None) is not None:
            self._busy += 1
            return
        if self._free() > 0:
            self._busy += 1
            return
        if self._full():
            raise SlotsBusy(f"{self._max_depth} are waiting already")
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lines[priority].append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if waiter.done() and not waiter.cancelled():
                # The grant and the cancellation met: the slot goes to the next one.
                self._busy -= 1
                self._share_out()
            raise

    def _leave(self, slot: Slot, holder: str | None) -> None:
        self._busy -= 1
        now = self._clock.now()
        if holder is not None and slot.kept_until is not None and holder not in self._kept:
            soon = now < slot.kept_until <= now + _LONGEST_KEPT
            if soon and len(self._kept) < self._total // 2:
                self._kept[holder] = now, slot.kept_until
        self._share_out()

    def _share_out(self) -> None:
        """Drop expired reservations, and give free slots to waiting callers."""
        now = self._clock.now()
        # A clock that was set back would make a reservation last for as long as that.
        self._kept = {holder: kept for holder, kept in self._kept.items() if kept[0] <= now < kept[1]}
        while self._free() > 0 and (waiter := self._next()) is not None:
            self._busy += 1
            waiter.set_result(None)

    def _next(self) -> asyncio.Future[None] | None:
        """Remove the next waiting caller; cancelled ones are skipped."""
        for line in self._lines.values():
            while line and line[0].done():
                line.popleft()
        now, background = self._lines[RequestPriority.NOW], self._lines[RequestPriority.BACKGROUND]
        if background and (not now or self._in_a_row >= _MAX_IN_A_ROW):
            self._in_a_row = 0
            return background.popleft()
        self._in_a_row = self._in_a_row + 1 if background else 0
        return now.popleft() if now else None

    def _free(self) -> int:
        return self._total - self._busy - len(self._kept)

    def _full(self) -> bool:
        return 0 < self._max_depth <= sum(map(self._waiting, RequestPriority))

    def _waiting(self, priority: RequestPriority) -> int:
        return sum(not waiter.done() for waiter in self._lines[priority])
