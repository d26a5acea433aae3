"""A bell that wakes the loops of this process: rung after a commit that may have given them something to do."""

import asyncio
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
    """Everybody with an ear hears each ring."""

    def __init__(self) -> None:
        self._ears: list[Ear] = []

    def ear(self) -> Ear:
        """An ear of one's own."""
        ear = Ear()
        self._ears.append(ear)
        return ear

    def ring(self) -> None:
        """Wake all."""
        for ear in self._ears:
            ear.hear()
