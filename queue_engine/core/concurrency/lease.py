"""Renew a lease while the work under it runs."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta

import structlog

from queue_engine.core.timing.clock import Clock

_log = structlog.get_logger("imq.lease")

Renew = Callable[[datetime], Awaitable[bool]]
"""Prolongs the lease until an instant; False when it is no longer ours."""


class HeldLease:
    """Whether a lease still stands, as far as its last renewal told."""

    def __init__(self) -> None:
        self.still = True


@asynccontextmanager
async def kept(clock: Clock, duration: timedelta, renew: Renew) -> AsyncIterator[HeldLease]:
    """Renew a lease at every third of its `duration` while the body runs.

    A renewal that fails for a passing reason is tried again at the next third; the lease ends by itself if it fails on.
    """
    held = HeldLease()

    async def beat() -> None:
        while held.still:
            await clock.sleep(duration / 3)
            try:
                held.still = await renew(clock.now() + duration)
            except Exception as error:
                _log.warning("lease_not_renewed", error=repr(error))

    heart = asyncio.create_task(beat())
    try:
        yield held
    finally:
        heart.cancel()
        await asyncio.gather(heart, return_exceptions=True)
