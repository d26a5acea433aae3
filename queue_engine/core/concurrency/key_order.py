"""Ordered gates: tasks run side by side, and end in the order in which they began."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Hashable, Iterator
from contextlib import contextmanager
from typing import Protocol


class OrderWait(Protocol):
    """Waits until all earlier tasks of the key have ended, or the `first` of them."""

    def __call__(self, first: int | None = None, /) -> Awaitable[None]:
        """Wait for all of them, or for so many."""


class KeyOrder:
    """Orders tasks by key. A slow task delays only later ones of its key, and only when they wait."""

    def __init__(self) -> None:
        self._standing: defaultdict[Hashable, list[asyncio.Event]] = defaultdict(list)

    @contextmanager
    def enter(self, key: Hashable) -> Iterator[OrderWait]:
        """Join the tasks of a key while the body runs. Gives a function that waits for all earlier ones."""
        line, gone = self._standing[key], asyncio.Event()
        ahead = tuple(line)
        line.append(gone)

        async def wait(first: int | None = None, /) -> None:
            for one in ahead[:first]:
                await one.wait()

        try:
            yield wait
        finally:
            gone.set()
            line.remove(gone)
            if not line:
                del self._standing[key]
