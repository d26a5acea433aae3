"""Combine many small calls into few large ones: calls that come during one round share the next.

A lone call is not held up by a single instant, and in a burst a round takes all that has come meanwhile. That is what
databases call group commit: a transaction costs about the same for one row as for fifty.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_CROWD = 10.0
_MOMENT_SECONDS = 0.25
"""So many recent calls count as a burst: about forty a second."""


class MicroBatch(Generic[T, R]):
    """Calls `do` with up to `most` items at once, in the order in which they came; one round at a time."""

    def __init__(self, do: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int = 200) -> None:
        """`do` answers each item, in the same order. Its exceptions are raised to all callers of that round."""
        self._do = do
        self._most = most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._rounds: asyncio.Task[None] | None = None
        self._lately = 0.0
        self._counted_at = 0.0

    async def __call__(self, item: T) -> R:
        """Submit an item and return its answer. A cancelled caller does not withdraw the item."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        self._called(1)
        if self._rounds is None:
            # With no context variables: a round belongs to all of its callers, not to the first of them.
            self._rounds = asyncio.create_task(self._go_round(), context=Context())
        return await future

    @property
    def under_burst(self) -> bool:
        """Whether calls come faster than other work should run beside them."""
        return self._called(0) > _CROWD

    async def drain(self) -> None:
        """Wait until nothing is under way, not even for callers that gave up."""
        while self._rounds is not None:
            await asyncio.wait([self._rounds])

    def _called(self, times: int) -> float:
        """Count calls; return the recent number, in which older calls weigh less."""
        now = asyncio.get_running_loop().time()
        self._lately = self._lately * math.exp((self._counted_at - now) / _MOMENT_SECONDS) + times
        self._counted_at = now
        return self._lately

    async def _go_round(self) -> None:
        try:
            while self._waiting:
                together, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._serve(together)
        finally:
            self._rounds = None

    async def _serve(self, together: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            answers = await self._do([item for item, _ in together])
        except BaseException as error:
            for _, future in together:
                if not future.done():
                    future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for (_, future), answer in zip(together, answers, strict=True):
            # A caller that gave up waiting has a cancelled future.
            if not future.done():
                future.set_result(answer)
