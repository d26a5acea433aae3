"""The web application: webhooks in, and whether the process lives and is ready."""

from collections.abc import Awaitable, Callable, Mapping

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from bot.receiver import MAX_BODY, Receiver
from queue_engine.core.outage import fault_of

SHUTDOWN_SECONDS = 20.0
"""How long running requests may finish after SIGTERM; hosting platforms kill after 30 seconds."""

log = structlog.get_logger(__name__)

Check = Callable[[], Awaitable[bool]]
"""Answers whether something the web process needs is there; may raise instead."""


def create_app(receiver: Receiver, checks: Mapping[str, Check]) -> web.Application:
    """The application. `checks` are asked by name at `/readyz`, such as `database` and `migrations`."""
    app = web.Application(client_max_size=MAX_BODY, middlewares=[_json_errors])
    app.router.add_post("/webhook", receiver.handle)
    app.router.add_get("/healthz", _alive)
    app.router.add_get("/readyz", _readiness(checks))
    return app


async def serve(app: web.Application, port: int, host: str | None = None) -> web.AppRunner:
    """Listen on `port` of `host`, all interfaces if None. The caller ends it with `await runner.cleanup()`.

    `runner.addresses` tells the port if 0 was given.
    """
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=SHUTDOWN_SECONDS, handle_signals=False)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
    except OSError:
        await runner.cleanup()
        raise
    return runner


async def _alive(_request: web.Request) -> web.Response:
    return web.json_response({"status": "alive"})


def _readiness(checks: Mapping[str, Check]) -> Handler:
    async def ready(_request: web.Request) -> web.Response:
        asked = {name: await _failing(name, check) for name, check in checks.items()}
        failing = [name for name, sentence in asked.items() if sentence is not None]
        if failing:
            why = {name: sentence for name, sentence in asked.items() if sentence}
            return web.json_response({"status": "not ready", "failing": failing, "why": why}, status=503)
        return web.json_response({"status": "ready"})

    return ready


async def _failing(name: str, check: Check) -> str | None:
    """None when the check holds; else why not, in a sentence that shows nothing of the inside, empty if unknown."""
    try:
        return None if await check() else ""
    except Exception as error:
        fault = fault_of(error)
        log.warning("readiness check failed", check=name, error=repr(error), fault=fault)
        return "" if fault is None else fault.sentence


@web.middleware
async def _json_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Whoever speaks JSON to us gets JSON back, also when something went wrong; inner details stay in the log."""
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
