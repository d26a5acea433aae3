"""Ordered gates: tasks run side by side, and end in the order in which they began."""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Hashable, Iterator
from contextlib import contextmanager
from typing import Protocol


class OrderWait(Protocol):
    """Waits until all who stood ahead have left their line, or the `first` of them."""

    def __call__(self, first: int | None = None, /) -> Awaitable[None]:
        """Wait for all of them, or for so many."""


class KeyOrder:
    """One line for each key. A slow task delays only those behind in the same line, and only at their `turn`."""

    def __init__(self) -> None:
        self._standing: defaultdict[Hashable, list[asyncio.Event]] = defaultdict(list)

    @contextmanager
    def enter(self, key: Hashable) -> Iterator[OrderWait]:
        """Stand at the end of a line while the body runs. Gives `turn`, which waits until all ahead have left."""
        line, gone = self._standing[key], asyncio.Event()
        ahead = tuple(line)
        line.append(gone)

        async def turn(first: int | None = None, /) -> None:
            for one in ahead[:first]:
                await one.wait()

        try:
            yield turn
        finally:
            gone.set()
            line.remove(gone)
            if not line:
                del self._standing[key]
