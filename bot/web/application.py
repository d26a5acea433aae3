"""The web application: webhooks, health and readiness."""

import socket

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from bot.http.limits import Limits, file_limit, limits_for
from bot.http.protocol import hide_server
from bot.http.site import LimitedSite
from bot.web.readiness import Readiness
from bot.webhooks.receiver import MAX_BODY, Receiver

SHUTDOWN_SECONDS = 20.0
"""How long running requests may finish after SIGTERM; hosting platforms kill after 30 seconds."""

log = structlog.get_logger(__name__)


def create_app(receiver: Receiver, readiness: Readiness) -> web.Application:
    """Create the application, with the routes that need no token."""
    app = new_application()
    app.router.add_post("/webhook", receiver.handle)
    app.router.add_get("/healthz", _alive)
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


async def _alive(_request: web.Request) -> web.Response:
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
