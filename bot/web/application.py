"""The web application: webhooks, health, readiness, and `GET /queue/status`.

Anyone may ask how busy IMQ is. Only callers with a token of the API see queues, and only those of repositories
that they may read: names and counts of others are hidden.
"""

import asyncio
import hashlib
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from bot.api.api_errors import errors_as_json
from bot.api.auth import identify
from bot.api.permissions import Access
from bot.http.connections import Limits, file_limit, limits_for
from bot.http.protocol import hide_server
from bot.http.server import LimitedSite
from bot.webhooks.receiver import MAX_BODY, Receiver
from queue_engine.core.concurrency.slots import SlotsStatus
from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import Clock
from queue_engine.effects.context import Engine
from queue_engine.queries.queue_status import QueueView, load_summaries
from queue_engine.store.figures import ProcessReport

_CACHED_FOR = timedelta(seconds=1)
"""How long the result is cached, so that requests cannot keep the database busy."""


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


SHUTDOWN_SECONDS = 20.0
"""How long running requests may finish after SIGTERM; hosting platforms kill after 30 seconds."""

log = structlog.get_logger(__name__)


def create_app(receiver: Receiver, readiness: Readiness) -> web.Application:
    """Create the application, with the routes that need no token."""
    app = new_application()
    app.router.add_post("/webhook", receiver.handle)
    app.router.add_get("/healthz", alive)
    app.router.add_get("/readyz", readiness.handle)
    return app


def new_application() -> web.Application:
    """Create an application without routes, whose errors are answered as JSON, with their details in the log alone."""
    app = web.Application(client_max_size=MAX_BODY, middlewares=[_json_errors])
    app.on_response_prepare.append(hide_server)
    return app


async def serve(
    app: web.Application,
    port: int,
    host: str,
    *,
    limits: Limits | None = None,
    bound: socket.socket | None = None,
) -> web.AppRunner:
    """Listen on `port` of `host`, or on a socket that is `bound` there. The caller ends it by `runner.cleanup()`.

    `runner.addresses` has the port if 0 was given; `limits` default to those that fit this process.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, handle_signals=False)
    await runner.setup()
    try:
        await LimitedSite(runner, host, port, limits or limits_for(file_limit()), bound).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


async def alive(_request: web.Request) -> web.Response:
    """Answer that the process runs."""
    return web.json_response({"status": "alive"})


@web.middleware
async def _json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors as JSON; details stay in the log."""
    try:
        return await handler(request)
    except web.HTTPException as error:
        if error.status < 400:
            raise
        headers = {"Allow": error.headers["Allow"]} if "Allow" in error.headers else None
        return web.json_response({"error": error.reason}, status=error.status, headers=headers)
    except Exception:
        log.exception("request failed", method=request.method, path=request.path)
        return web.json_response({"error": "Internal Server Error"}, status=500)


_ID = 16


@dataclass(frozen=True, slots=True)
class _Reading:
    """One read of the database."""

    at: datetime
    queues: tuple[QueueView, ...]
    others: tuple[ProcessReport, ...]


class QueueStatusHandler:
    """Answers for all processes on one database. `slots` returns those of this process."""

    def __init__(self, engine: Engine, access: Access, slots: Callable[[], SlotsStatus], max_depth: int) -> None:
        """`max_depth` is the operator's limit of entries in a queue, 0 for none."""
        self._engine = engine
        self._access = access
        self._max_depth = max_depth
        self._slots = slots
        self._lock = asyncio.Lock()
        self._reading: _Reading | None = None

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer 200; 401 for an invalid token; 503 while the database is down."""
        return await errors_as_json(request, self._answer)

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        token = None
        if "Authorization" in request.headers:
            token = await identify(request, self._engine.store, self._engine.clock)
        reading = await self._refresh()
        idle, busy = ([each for each in reading.queues if each.busy is wanted] for wanted in (False, True))
        visible = await self._access.visible(
            token, (each.queue.repository for each in busy), (each.queue.repository for each in idle)
        )
        shown = [each for each in reading.queues if each.queue.repository.id in visible]
        return web.json_response(self._status(reading, shown))

    async def _refresh(self) -> _Reading:
        async with self._lock:
            now, owner = self._engine.clock.now(), self._engine.owner
            if self._reading is None or not timedelta(0) <= now - self._reading.at < _CACHED_FOR:
                async with self._engine.store.reading() as tx:
                    others = tuple(report for report in await tx.processes.all(now) if report.owner != owner)
                    self._reading = _Reading(now, await load_summaries(tx, now), others)
            return self._reading

    def _status(self, reading: _Reading, queues: Sequence[QueueView]) -> dict[str, Any]:
        max_depth = self._max_depth
        slots: list[Mapping[str, Any]] = [asdict(self._slots()), *(report.status for report in reading.others)]
        calls = all(each.get("accepting", True) for each in slots)
        places = not queues or any(each.accepts(max_depth) for each in queues)
        summed = ("rt_queue", "be_queue", "total_slots", "available_slots")
        return {
            **{name: sum(each.get(name, 0) for each in slots) for name in summed},
            "accepting": calls and places,
            "max_queue_depth": max_depth,
            "queues": [_queue(each, max_depth) for each in queues if each.busy],
        }


def _queue(found: QueueView, max_depth: int) -> dict[str, Any]:
    queue = found.queue
    return {
        # Consecutive ids would disclose the number of hidden queues.
        "id": hashlib.sha256(f"{queue.repository.id} {queue.base_branch}".encode()).hexdigest()[:_ID],
        "repository": queue.repository.full_name,
        "base_branch": queue.base_branch,
        "depth": found.depth,
        "held": found.held,
        "not_ready": found.not_ready,
        "accepting": found.accepts(max_depth),
        "blocker": found.blockers[0].reason.value if found.blockers else None,
    }
