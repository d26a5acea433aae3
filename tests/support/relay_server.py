"""A relay as smee.io is one: it parses what is posted to a channel, and sends it to all listeners as an event."""

import asyncio
import json
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer


class RelayServer:
    """One relay. `raw` makes it add the text that was signed, as newer ones do."""

    def __init__(self, *, raw: bool = False) -> None:
        self.raw = raw
        self.connected = asyncio.Event()
        self._listeners: list[tuple[web.StreamResponse, asyncio.Event]] = []
        application = web.Application()
        application.add_routes([web.get("/{channel}", self._listen), web.post("/{channel}", self._post)])
        self._server = TestServer(application)

    @property
    def url(self) -> str:
        """The address of a channel."""
        return str(self._server.make_url("/channel"))

    async def start(self) -> None:
        await self._server.start_server()

    async def stop(self) -> None:
        await self.hang_up()
        await self._server.close()

    async def hang_up(self) -> None:
        """End every connection."""
        self.connected.clear()
        for _, over in self._listeners:
            over.set()
        self._listeners.clear()

    async def send(self, text: str) -> None:
        """Send lines of the protocol to all listeners; those that have gone are forgotten."""
        for each in self._listeners[:]:
            try:
                await each[0].write(text.encode())
            except ConnectionError:
                self._listeners.remove(each)

    async def _listen(self, request: web.Request) -> web.StreamResponse:
        if request.headers.get("Accept") != "text/event-stream":
            return web.Response(text="<html>", content_type="text/html")
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        await answer.write(b"id: 0\nevent: ready\ndata: {}\n\n")
        over = asyncio.Event()
        self._listeners.append((answer, over))
        self.connected.set()
        await over.wait()
        return answer

    async def _post(self, request: web.Request) -> web.Response:
        text = await request.text()
        event: dict[str, Any] = {name.lower(): value for name, value in request.headers.items()}
        event |= {"body": json.loads(text), "query": {}, "timestamp": 1}
        event |= {"rawbody": text} if self.raw else {}
        data = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        await self.send(f"id: 1\ndata: {data}\n\n")
        return web.Response()
