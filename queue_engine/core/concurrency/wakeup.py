"""Wake the loops of this process after a commit that may have given them work.

A ring may name what it is about; then only the loops that listen for that wake. In a burst every needless waking
costs more than the work that was stored.

Wake-ups may be lost between processes: loops look every ten seconds, and every second while the listener of
PostgreSQL's notes is not proved to hear. It proves that by notes to itself over another connection.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta


class WakeupListener:
    """One loop's hearing: a ring is remembered until this loop waits, so that none between two waits is lost."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def wake(self) -> None:
        """Remember one ring."""
        self._event.set()

    async def wait(self, at_most: timedelta) -> None:
        """Wait until the bell rings or `at_most` of real time has passed."""
        try:
            async with asyncio.timeout(max(0.0, at_most.total_seconds())):
                await self._event.wait()
        except TimeoutError:
            return
        finally:
            self._event.clear()


class Wakeup:
    """Everybody with an ear hears each ring that concerns them."""

    def __init__(self) -> None:
        self._ears: list[tuple[WakeupListener, Collection[str] | None]] = []

    def waiter(self, topics: Collection[str] | None = None) -> WakeupListener:
        """An ear of one's own: for the rings about these topics and those about none, or for every ring."""
        ear = WakeupListener()
        self._ears.append((ear, topics))
        return ear

    def notify(self, topic: str | None = None) -> None:
        """Wake the waiters for this topic; without one, all."""
        for ear, topics in self._ears:
            if topic is None or topics is None or topic in topics:
                ear.wake()
