"""Wake the loops of this process after a commit that may have given them work.

A notification may have a topic; then only the loops that listen for it wake. In a burst a needless wakeup costs more
than the stored work.

Wakeups may be lost between processes: loops check every ten seconds, and every second while PostgreSQL's notifications
are not known to arrive. The listener tests that by notifications to itself over another connection.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta


class WakeupListener:
    """Wakes one loop: a wakeup is remembered until the loop waits, so that none between two waits is lost."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Remember a wakeup."""
        self._event.set()

    async def wait(self, at_most: timedelta) -> None:
        """Wait for a wakeup, or until `at_most` of real time has passed."""
        try:
            async with asyncio.timeout(max(0.0, at_most.total_seconds())):
                await self._event.wait()
        except TimeoutError:
            return
        finally:
            self._event.clear()


class Wakeup:
    """Wakes all listeners of a topic."""

    def __init__(self) -> None:
        self._listeners: list[tuple[WakeupListener, Collection[str] | None]] = []

    def waiter(self, topics: Collection[str] | None = None) -> WakeupListener:
        """Add a listener for these topics, or for all; notifications without a topic wake every listener."""
        listener = WakeupListener()
        self._listeners.append((listener, topics))
        return listener

    def notify(self, topic: str | None = None) -> None:
        """Wake the waiters for this topic; without one, all."""
        for listener, topics in self._listeners:
            if topic is None or topics is None or topic in topics:
                listener.wake()
