"""Requests, limits and waits of the tests of pacing."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import pytest

from queue_engine.domain.errors import RateLimitError
from tests.support.real_time import LIMIT
from tests.unit.bot.conftest import ManualClock

PULL = "/repos/ada/engine/pulls/3"
COMMENTS = "/repos/ada/engine/issues/3/comments"
MERGE = f"{PULL}/merge"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Figures:
    """A meter that a test reads."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.times: Counter[tuple[str, ...]] = Counter()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name, *labels.values()] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        assert seconds >= 0
        self.times[name, *labels.values()] += 1


def budget(clock: ManualClock, remaining: int) -> dict[str, str]:
    """Headers of an answer with so much left of 5,000 for ten minutes more."""
    reset = int((clock.now() + 10 * MINUTE).timestamp())
    return {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(reset),
    }


async def soon(true: Callable[[], bool]) -> None:
    """Let sockets do their work until something is so."""
    async with asyncio.timeout(LIMIT):
        while not true():  # noqa: ASYNC110 - there is nothing to be told by when a socket has been read
            await asyncio.sleep(0)


async def limited(call: Awaitable[object]) -> timedelta:
    """How long a call that is held back is to wait."""
    with pytest.raises(RateLimitError) as caught:
        await call
    return caught.value.retry_after
