"""A GitHub that answers as a test configures it, over a real socket, and remembers its requests."""

import asyncio
import json
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from aiohttp import web
from multidict import CIMultiDict

from queue_engine.core.timing.clock import Clock


@dataclass(frozen=True)
class Says:
    """One answer. `data` is sent as JSON unless `body` is given; `hang_up` cuts the line, `hang` never answers."""

    data: Any = None
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json; charset=utf-8"
    hang_up: bool = False
    hang: bool = False


LACKING = {"x-accepted-github-permissions": "administration=admin"}
"""The header of a refusal that names a permission which no token of IMQ has."""


@dataclass(frozen=True)
class Asked:
    """A request as it arrived: the path is still quoted."""

    method: str
    path: str
    query: Mapping[str, str]
    headers: CIMultiDict[str]
    data: Any


class GitHubDouble:
    """Answers by method and quoted path; the last of several answers is repeated. Tokens are handed out by itself."""

    def __init__(self, clock: Clock) -> None:
        self.url = ""
        self.asked: list[Asked] = []
        self.token_life = timedelta(hours=1)
        self.tokens = 0
        self._clock = clock
        self._answers: defaultdict[tuple[str, str], list[Says]] = defaultdict(list)
        self.on("GET", "/app", Says({"slug": "imq"}))
        self._end = asyncio.Event()
        app = web.Application()
        app.router.add_route("*", "/{tail:.*}", self._answer)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)

    async def start(self) -> None:
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0).start()
        self.url = f"http://127.0.0.1:{self._runner.addresses[0][1]}"

    async def stop(self) -> None:
        self._end.set()
        await self._runner.cleanup()

    def let_go(self) -> None:
        """Answer the hanging requests, and let no later request hang."""
        self._end.set()

    def on(self, method: str, path: str, *answers: Says) -> None:
        """From now on, say this when asked."""
        self._answers[method, path] = list(answers)

    def asked_for(self, method: str, path: str) -> list[Asked]:
        return [asked for asked in self.asked if (asked.method, asked.path) == (method, path)]

    async def _answer(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        path = request.rel_url.raw_path
        headers = CIMultiDict(request.headers)
        self.asked.append(
            Asked(request.method, path, dict(request.rel_url.query), headers, json.loads(body) if body else None)
        )
        answers = self._answers[request.method, path]
        says = answers[0] if answers else self._default(request.method, path)
        if len(answers) > 1:
            del answers[0]
        if says.hang:
            await self._end.wait()
        if says.hang_up:
            assert request.transport is not None
            request.transport.close()
        content = says.body if says.body is not None else json.dumps(says.data).encode() if says.status != 204 else b""
        return web.Response(
            status=says.status, body=content, headers={"content-type": says.content_type, **says.headers}
        )

    def _default(self, method: str, path: str) -> Says:
        if method == "POST" and path.endswith("/access_tokens"):
            self.tokens += 1
            expires = self._clock.now() + self.token_life
            return Says({"token": f"ghs_token{self.tokens}", "expires_at": expires.isoformat()}, status=201)
        if method == "GET" and path.startswith("/repositories/") and path.count("/") == 2:
            return Says({"id": int(path.rpartition("/")[2])})
        return Says({"message": "Not Found"}, status=404)
