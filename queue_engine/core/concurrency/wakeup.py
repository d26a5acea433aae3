"""Wake the loops of this process after a commit that may have given them work.

A notification may have a topic; then only the loops that listen for it wake. In a burst a needless wakeup costs more
than the stored work.

Wakeups may be lost between processes: loops check every ten seconds, and every second while PostgreSQL's notifications
are not known to arrive. The listener tests that by notifications to itself over another connection.

A commit wakes the loops of every worker, and one of them gets the work. So a loop that another process woke for nothing
waits longer before it acts on the next such wakeup, up to a second; one that found work acts at once. Three idle
workers that asked ten times a second took as much processor time as the one that worked.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta

_FIRST_DELAY, _LONGEST_DELAY = timedelta(milliseconds=10), timedelta(seconds=1)
"""How long a loop waits that another process woke once for nothing, and at most."""


class WakeupListener:
    """Wakes one loop: a wakeup is remembered until the loop waits, so that none between two waits is lost."""

    def __init__(self, *, shared: bool = False) -> None:
        """With `shared`, one of several processes does the work that a wakeup announces."""
        self._shared = shared
        self._event, self._own = asyncio.Event(), asyncio.Event()
        self._woken_by_others = False
        self.delay = timedelta(0)
        """How long to wait after a wakeup by another process, for one by this process or for others to do the work."""

    def wake(self, *, by_other: bool = False) -> None:
        """Remember a wakeup, by this process or by another one."""
        self._event.set()
        if not by_other:
            self._own.set()

    async def wait(self, at_most: timedelta) -> None:
        """Wait for a wakeup, or until `at_most` of real time has passed."""
        try:
            woken = await _set_within(self._event, at_most)
            self._woken_by_others = woken and not self._own.is_set()
            if self._woken_by_others and self.delay:
                self._woken_by_others = not await _set_within(self._own, self.delay)
        finally:
            self._event.clear()
            self._own.clear()

    def served(self, *, found: bool) -> None:
        """Adapt the delay to whether there was work since the last wait."""
        if found:
            self.delay = timedelta(0)
        elif self._shared and self._woken_by_others:
            self.delay = min(_LONGEST_DELAY, self.delay * 2 or _FIRST_DELAY)


async def _set_within(event: asyncio.Event, at_most: timedelta) -> bool:
    try:
        async with asyncio.timeout(max(0.0, at_most.total_seconds())):
            return await event.wait()
    except TimeoutError:
        return False


class Wakeup:
    """Wakes all listeners of a topic."""

    def __init__(self) -> None:
        self._listeners: list[tuple[WakeupListener, Collection[str] | None]] = []

    def waiter(self, topics: Collection[str] | None = None, *, shared: bool = False) -> WakeupListener:
        """Add a listener for these topics, or for all; notifications without a topic wake every listener."""
        listener = WakeupListener(shared=shared)
        self._listeners.append((listener, topics))
        return listener

    def notify(self, topic: str | None = None, *, by_other: bool = False) -> None:
        """Wake the waiters for this topic; without one, all. `by_other` says that another process has the news."""
        for listener, topics in self._listeners:
            if topic is None or topics is None or topic in topics:
                listener.wake(by_other=by_other)
