"""Ordered gates: tasks run side by side, and end in the order of their ranks."""

import asyncio
from bisect import insort
from collections import defaultdict
from collections.abc import Awaitable, Hashable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Protocol


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
