"""`GET /readyz`: test the needs of the web process, once a second at most."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta

import structlog
from aiohttp import web

from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import Clock

_FRESH = timedelta(seconds=1)
"""How long one look answers everybody, so that nobody keeps the database busy by asking."""

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[bool]]
"""Answers whether something the web process needs is there; may raise instead."""


class Readiness:
    """The answer. `checks` are asked by name, such as `database` and `migrations`."""

    def __init__(self, checks: Mapping[str, Check], clock: Clock) -> None:
        self._checks = checks
        self._clock = clock
        self._turn = asyncio.Lock()
        self._failing: Mapping[str, str] = {}
        self._looked: datetime | None = None

    async def handle(self, _request: web.Request) -> web.Response:
        """200; 503 with the names of what is not there, and why if it is known."""
        failing = await self._look()
        if failing:
            why = {name: sentence for name, sentence in failing.items() if sentence}
            return web.json_response({"status": "not ready", "failing": list(failing), "why": why}, status=503)
        return web.json_response({"status": "ready"})

    async def _look(self) -> Mapping[str, str]:
        async with self._turn:
            now = self._clock.now()
            if self._looked is None or not timedelta(0) <= now - self._looked < _FRESH:
                asked = {name: await _failing(name, check) for name, check in self._checks.items()}
                self._failing = {name: sentence for name, sentence in asked.items() if sentence is not None}
                self._looked = self._clock.now()
            return self._failing


async def _failing(name: str, check: Check) -> str | None:
    """None when the check holds; else why not, in a sentence that shows nothing of the inside, empty if unknown."""
    try:
        return None if await check() else ""
    except Exception as error:
        fault = fault_of(error)
        log.warning("readiness check failed", check=name, error=repr(error), fault=fault)
        return "" if fault is None else fault.sentence
