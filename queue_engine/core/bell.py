"""A bell that wakes the loops of this process: rung after a commit that may have given them something to do.

A ring may name what it is about; then only the loops that listen for that wake. In a burst every needless waking
costs more than the work that was stored.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta


class Ear:
    """One loop's hearing: a ring is remembered until this loop waits, so that none between two waits is lost."""

    def __init__(self) -> None:
        self._event = asyncio.Event()

    def hear(self) -> None:
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


class Bell:
    """Everybody with an ear hears each ring that concerns them."""

    def __init__(self) -> None:
        self._ears: list[tuple[Ear, Collection[str] | None]] = []

    def ear(self, topics: Collection[str] | None = None) -> Ear:
        """An ear of one's own: for the rings about these topics and those about none, or for every ring."""
        ear = Ear()
        self._ears.append((ear, topics))
        return ear

    def ring(self, topic: str | None = None) -> None:
        """Wake whoever listens for this topic; without one, all."""
        for ear, topics in self._ears:
            if topic is None or topics is None or topic in topics:
                ear.hear()
