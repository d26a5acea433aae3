"""A receiver of messages over real HTTP, which answers as a test wants."""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"  # pragma: allowlist secret
"""The example of the specification."""

Reply = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Received:
    """One request."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        """The body's content."""
        return json.loads(self.body)


@dataclass
class SinkReceiver:
    """Records each request. `replies` has the reply of the next requests; afterwards all are accepted."""

    url: str = ""
    received: list[Received] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    always: Reply | None = None
    _arrived: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, count: int) -> None:
        """Wait until so many requests have arrived."""
        while len(self.received) < count:
            self._arrived.clear()
            await self._arrived.wait()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Record the request, and answer."""
        self.received.append(Received(request.path, dict(request.headers), await request.read()))
        self._arrived.set()
        reply = self.replies.pop(0) if self.replies else self.always
        return web.Response(text="ok") if reply is None else await reply(request)

    def types(self, path: str = "/hook") -> list[str]:
        """The types of the messages to a generic webhook, in order."""
        return [each.json["type"] for each in self.received if each.path == path]


def answers(status: int, text: str = "", **headers: str) -> Reply:
    """A plain answer."""

    async def reply(request: web.Request) -> web.StreamResponse:
        return web.Response(status=status, text=text, headers={k.replace("_", "-"): v for k, v in headers.items()})

    return reply


async def closes(request: web.Request) -> web.StreamResponse:
    """Close the connection without an answer."""
    assert request.transport is not None
    request.transport.close()
    return web.Response()


async def hangs(request: web.Request) -> web.StreamResponse:
    """Never answer."""
    await asyncio.Event().wait()
    raise AssertionError("never")


async def answers_without_end(request: web.Request) -> web.StreamResponse:
    """Fail with a body that never ends."""
    response = web.StreamResponse(status=500)
    await response.prepare(request)
    while True:
        await response.write(b"x" * 65_536)


@asynccontextmanager
async def sink_receiver() -> AsyncIterator[SinkReceiver]:
    """Serve on a free port of this machine."""
    receiver = SinkReceiver()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", receiver.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1, access_log=None, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    receiver.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield receiver
    finally:
        await runner.cleanup()


def sinks_setting(*entries: dict[str, Any]) -> str:
    """The setting as JSON, which is YAML."""
    return json.dumps(list(entries))
