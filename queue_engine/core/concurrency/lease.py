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
    """Whether a lease is still held, by its last renewal."""

    def __init__(self) -> None:
        self.still = True


@asynccontextmanager
async def kept(clock: Clock, duration: timedelta, renew: Renew) -> AsyncIterator[HeldLease]:
    """Renew a lease at every third of its `duration` while the body runs.

    A renewal that fails is tried again at the next third; if all fail, the lease expires.
    """
    held = HeldLease()

    async def renew_until_end() -> None:
        while held.still:
            await clock.sleep(duration / 3)
            try:
                held.still = await renew(clock.now() + duration)
            except Exception as error:
                _log.warning("lease_not_renewed", exc_info=error)

    renewal = asyncio.create_task(renew_until_end())
    try:
        yield held
    finally:
        renewal.cancel()
        await asyncio.gather(renewal, return_exceptions=True)
