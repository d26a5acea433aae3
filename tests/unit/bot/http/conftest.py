"""Servers with the limits that a test needs."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

import pytest
from aiohttp import web
from pydantic import SecretStr

from bot.http.connections import Limits
from bot.web.application import Readiness, create_app, serve
from bot.webhooks.receiver import Receiver
from queue_engine.domain.webhooks import WebhookEvent
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.http.sockets import SECRET, Serve, Server, Time


async def _stored(_webhook_event: WebhookEvent) -> bool:
    return True


@asynccontextmanager
async def _serving(limits: Limits) -> AsyncIterator[Server]:
    clock = ManualClock()
    app = create_app(Receiver(secret=SecretStr(SECRET), own_app_id=1, store=_stored, clock=clock), Readiness({}, clock))
    async with AsyncExitStack() as stack:
        server = Server(0, stack, Time(asyncio.get_running_loop()))

        async def work(_request: web.Request) -> web.Response:
            server.working.release()
            await server.release.wait()
            return web.json_response({})

        async def much(_request: web.Request) -> web.Response:
            return web.Response(body=b"x" * 2**25)

        app.router.add_get("/work", work)
        app.router.add_get("/much", much)
        runner = await serve(app, 0, "127.0.0.1", limits=limits)
        server.port = runner.addresses[0][1]
        try:
            yield server
        finally:
            server.release.set()
            await stack.aclose()
            await runner.cleanup()


@pytest.fixture
async def start() -> AsyncIterator[Serve]:
    """Starts servers with the limits that a test needs."""
    async with AsyncExitStack() as stack:

        async def begin(limits: Limits) -> Server:
            return await stack.enter_async_context(_serving(limits))

        yield begin
