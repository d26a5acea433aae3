"""`GET /readyz`: run the checks of the web process, once a second at most."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog
from aiohttp import web

from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import Clock

_CACHED_FOR = timedelta(seconds=1)
"""How long the result is cached, so that requests cannot keep the database busy."""

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[bool]]
"""Returns whether a requirement of the web process is met; may raise instead."""


class RequirementError(Exception):
    """A requirement is not met. The message says why, without internal details."""


class Readiness:
    """Runs named checks, such as `database` and `migrations`."""

    def __init__(
        self, checks: Mapping[str, Check], clock: Clock, advice: Callable[[], str | None] = lambda: None
    ) -> None:
        """`advice` is for the operator of a process that is ready, and yet has nothing to do."""
        self._advice = advice
        self._checks = checks
        self._clock = clock
        self._lock = asyncio.Lock()
        self._failing: Mapping[str, str] = {}
        self._refreshed_at: datetime | None = None

    async def handle(self, _request: web.Request) -> web.Response:
        """Answer 200, with advice if there is any; or 503 with the names of failed checks, and why if it is known."""
        failing = await self._refresh()
        if failing:
            why = {name: sentence for name, sentence in failing.items() if sentence}
            return web.json_response({"status": "not ready", "failing": list(failing), "why": why}, status=503)
        advice = self._advice()
        return web.json_response({"status": "ready"} if advice is None else {"status": "ready", "advice": advice})

    async def _refresh(self) -> Mapping[str, str]:
        async with self._lock:
            now = self._clock.now()
            if self._refreshed_at is None or not timedelta(0) <= now - self._refreshed_at < _CACHED_FOR:
                results = {name: await _failing(name, check) for name, check in self._checks.items()}
                self._failing = {name: sentence for name, sentence in results.items() if sentence is not None}
                self._refreshed_at = self._clock.now()
            return self._failing


async def _failing(name: str, check: Check) -> str | None:
    """Return None when the check passes; else why not, in a sentence without internal details, empty if unknown."""
    try:
        return None if await check() else ""
    except RequirementError as error:
        return str(error)
    except Exception as error:
        fault = fault_of(error)
        log.warning("readiness check failed", check=name, exc_info=error)
        return "" if fault is None else fault.sentence
