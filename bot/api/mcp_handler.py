"""`POST /mcp`: tools for agents, over the handlers, the tokens and the rights of the API."""

import json
from functools import partial
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit
from uuid import uuid4

from aiohttp import StreamReader, web
from yarl import URL

from bot.api.api_errors import ApiError
from bot.api.auth import identify
from bot.api.payload import MAX_BODY
from bot.http.event_stream import StreamAnswer
from bot.http.form import Refused, read_body
from bot.mcp.protocol import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LATEST,
    UNKNOWN_METHOD,
    McpRequest,
    ProtocolError,
    answer,
    check_version,
    parse_message,
    shortened,
    waits_long,
)
from bot.mcp.tools import ApiCall
from queue_engine.effects.context import Engine

PATH = "/mcp"

_READING = "GET"
_VERSION_HEADER = "MCP-Protocol-Version"
_STATUS = {UNKNOWN_METHOD: 404}
"""The status of errors of revision 2026-07-28, where it is not 400. Earlier revisions have 200."""

_QUIET_SECONDS, _SEND_SECONDS = 15.0, 10.0
"""How long a connection may be silent, and how long it may take no bytes."""


class McpHandler:
    """Answers each message by itself: it has no sessions. A stream keeps a connection open while a tool waits."""

    def __init__(self, engine: Engine, app: web.Application, public_url: str | None) -> None:
        """`app` has the API mounted. Browsers may call from `public_url`, and from the address that they call."""
        self._engine = engine
        self._app = app
        self._public_url = public_url

    def routes(self) -> list[web.RouteDef]:
        return [web.post(PATH, self.handle)]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answer 200 with a message; 202 for a notification; 400, 401, 403, 404, 413, 415 with an error.

        Where a tool waits for longer than a minute, its answer is an event of a stream, if the client reads streams:
        comments come before it, so that no proxy ends the connection. For other clients it waits a minute.
        """
        try:
            self._refuse_foreign_sites(request)
            parsed = parse_message(await read_body(request, "message", MAX_BODY))
            if parsed is None:
                return web.Response(status=202)
        except Refused as refused:
            return _refusal(refused.status, refused.sentence)
        except ProtocolError as error:
            return web.json_response(error.answer(), status=400)
        try:
            _check_headers(request, parsed)
            check_version(parsed)
            if parsed.method == "tools/call":
                await identify(request, self._engine.store, self._engine.clock)
            if waits_long(parsed):
                if "text/event-stream" in ",".join(request.headers.getall("Accept", [])):
                    return await self._stream(request, parsed)
                parsed = shortened(parsed)
            return web.json_response(await self._answer(request, parsed))
        except ProtocolError as error:
            earlier = parsed.version is None and request.headers.get(_VERSION_HEADER) != LATEST
            status = 200 if earlier else _STATUS.get(error.code, 400)
            return web.json_response(error.answer(parsed.id), status=status)
        except ApiError as error:
            return _refusal(error.status, str(error), parsed.id, headers=error.headers)

    async def _answer(self, request: web.Request, parsed: McpRequest) -> dict[str, Any]:
        return await answer(parsed, partial(self._send, request), lambda: self._engine.clock.now().timestamp())

    async def _stream(self, request: web.Request, parsed: McpRequest) -> web.StreamResponse:
        response = StreamAnswer(allow_all_methods=True, send_timeout=_SEND_SECONDS, ping_interval=_QUIET_SECONDS)

        async def send() -> None:
            await response.send(json.dumps(await self._answer(request, parsed)), event="message")

        await response.serve(request, send)
        return response

    def _refuse_foreign_sites(self, request: web.Request) -> None:
        """Refuse what a page of another site has a browser send ("Streamable HTTP: Security & DNS rebinding")."""
        origin = request.headers.get("Origin")
        if origin is None:
            return
        own = {None if self._public_url is None else urlsplit(self._public_url).netloc, request.host}
        if urlsplit(origin).netloc not in own:
            raise Refused(403, "pages of other sites may not call this address")

    async def _send(self, request: web.Request, call: ApiCall) -> tuple[int, Any]:
        """Have the API answer a call of this request's caller."""
        headers = {name: value for name, value in request.headers.items() if name == "Authorization"}
        content = b""
        if call.method != _READING:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": str(uuid4())}
            content = json.dumps(call.body).encode()
        inner = request.clone(method=call.method, rel_url=URL(call.path, encoded=True), headers=headers)
        # aiohttp offers no other way to have an application answer a request that no connection sent.
        inner._payload = StreamReader(request.protocol, MAX_BODY)
        inner._payload.feed_data(content)
        inner._payload.feed_eof()
        response = await self._app._handle(inner)
        assert isinstance(response, web.Response)
        return response.status, json.loads(response.text or "null")


def _check_headers(request: web.Request, parsed: McpRequest) -> None:
    """Compare the headers by which proxies route with the message (revision 2026-07-28, "Request headers")."""
    if parsed.version is None:
        if request.headers.get(_VERSION_HEADER) == LATEST:
            raise ProtocolError(INVALID_PARAMS, "params._meta lacks the protocol version that the header names.")
        return
    expected = {_VERSION_HEADER: parsed.version, "Mcp-Method": parsed.method}
    if parsed.method == "tools/call":
        expected["Mcp-Name"] = str(parsed.params.get("name"))
    for name, value in expected.items():
        if request.headers.getall(name, []) != [value]:
            raise ProtocolError(HEADER_MISMATCH, f"The header {name} is not {value[:100]}, as the message says.")


def _refusal(status: int, sentence: str, request_id: Any = None, headers: dict[str, str] | None = None) -> web.Response:
    message = f"{HTTPStatus(status).phrase}: {sentence}"
    return web.json_response(ProtocolError(INVALID_REQUEST, message).answer(request_id), status=status, headers=headers)
