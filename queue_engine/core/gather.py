"""Many small calls done as few large ones: whoever calls while one round is under way is served by the next.

A lone call is not held up by a single instant, and in a burst a round takes all that has come meanwhile. That is what
databases call group commit: a transaction costs about the same for one row as for fifty.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextvars import Context
from typing import Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")

_CROWD = 2.0
"""Waiting for one round, on average: with so many, callers come faster than they are served."""


class Gather(Generic[T, R]):
    """Calls `do` with up to `most` items at once, in the order in which they came; one round at a time."""

    def __init__(self, do: Callable[[Sequence[T]], Awaitable[Sequence[R]]], *, most: int = 200) -> None:
        """`do` answers each item, in the same order. What it raises is raised to everybody of that round."""
        self._do = do
        self._most = most
        self._waiting: list[tuple[T, asyncio.Future[R]]] = []
        self._rounds: asyncio.Task[None] | None = None
        self._sharing = 0.0

    async def __call__(self, item: T) -> R:
        """Have one item done and return its answer. A caller that gives up does not take the item back."""
        future: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._waiting.append((item, future))
        if self._rounds is None:
            # With no context variables: a round belongs to all of its callers, not to the first of them.
            self._rounds = asyncio.create_task(self._go_round(), context=Context())
        return await future

    @property
    def crowded(self) -> bool:
        """Whether several have been sharing each round for a while, and still do."""
        return self._rounds is not None and self._sharing > _CROWD

    async def drain(self) -> None:
        """Wait until nothing is under way, not even for callers that gave up."""
        while self._rounds is not None:
            await asyncio.wait([self._rounds])

    async def _go_round(self) -> None:
        try:
            while self._waiting:
                self._sharing = 0.9 * self._sharing + 0.1 * len(self._waiting)
                together, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._serve(together)
        finally:
            self._rounds = None
            self._sharing /= 2

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
            # Somebody who gave up waiting has a cancelled future.
            if not future.done():
                future.set_result(answer)
