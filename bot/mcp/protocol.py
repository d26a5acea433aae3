"""Answers to messages of the Model Context Protocol, for any transport.

Revision 2026-07-28 has no sessions: each request names its revision in `_meta`, and `server/discover` names those that
the server speaks (https://modelcontextprotocol.io/specification/2026-07-28). Earlier clients begin by `initialize`; no
answer depends on it. `mcp`, the official client for Python, judges both in tests/process/test_mcp.py.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from bot import __version__
from bot.mcp.tools import QUIET_WAIT, TOOLS, MalformedCall, Send

LATEST = "2026-07-28"
_WITH_HANDSHAKE = ("2025-03-26", "2025-06-18", "2025-11-25")
"""Earlier revisions, oldest first, whose requests have no `_meta` of their own."""

_PREFIX = "io.modelcontextprotocol/"
_VERSION, _CAPABILITIES = f"{_PREFIX}protocolVersion", f"{_PREFIX}clientCapabilities"
_SERVER = {"name": "imq", "title": "IMQ", "version": __version__}
_CAPABLE: Mapping[str, Any] = {"tools": {}}
_CACHED_MS = 3_600_000

INSTRUCTIONS = (
    "IMQ is the merge queue of this team: pull requests land through it, and are not merged by hand. "
    "Call queue, then wait until the state is not_queued. An outcome other than landed says in next what to do."
)

PARSE_ERROR, INVALID_REQUEST, UNKNOWN_METHOD, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL_ERROR = -32603
HEADER_MISMATCH, UNSUPPORTED_VERSION = -32020, -32022


class ProtocolError(Exception):
    """An error of the protocol, with its code; the message is for who builds the client."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code = code
        self.data = data

    def answer(self, request_id: Any = None) -> dict[str, Any]:
        error = {"code": self.code, "message": str(self)} | ({} if self.data is None else {"data": self.data})
        return {"jsonrpc": "2.0", "id": request_id, "error": error}


@dataclass(frozen=True, slots=True)
class McpRequest:
    """A request. `version` is the revision that it names; None for one of a client that begins by `initialize`."""

    id: Any
    method: str
    params: Mapping[str, Any]
    version: str | None


def parse_message(text: str | bytes) -> McpRequest | None:
    """Return the request in a message; None for a notification. Raises ProtocolError."""
    try:
        message = json.loads(text)
    except (ValueError, RecursionError):
        raise ProtocolError(PARSE_ERROR, "The message is not JSON.") from None
    if not isinstance(message, dict) or message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
        raise ProtocolError(INVALID_REQUEST, "Send one request of JSON-RPC 2.0, with a method.")
    if "id" not in message:
        return None
    if isinstance(message["id"], bool) or not isinstance(message["id"], str | int):
        raise ProtocolError(INVALID_REQUEST, "The id of a request is a string or a whole number.")
    params = message.get("params", {})
    if not isinstance(params, dict):
        raise ProtocolError(INVALID_PARAMS, "The params are an object.")
    meta = params.get("_meta")
    version = meta.get(_VERSION) if isinstance(meta, dict) else None
    if version is not None and not isinstance(version, str):
        raise ProtocolError(INVALID_PARAMS, f"params._meta: {_VERSION} is a string.")
    return McpRequest(message["id"], message["method"], params, version)


async def answer(request: McpRequest, send: Send, now: Callable[[], float]) -> dict[str, Any]:
    """Answer a request; `send` makes calls of the API, `now` is the time in seconds. Raises ProtocolError."""
    result = await _result(request, send, now)
    if request.version is not None:
        result = {**result, "resultType": "complete", "_meta": {f"{_PREFIX}serverInfo": _SERVER}}
    return {"jsonrpc": "2.0", "id": request.id, "result": result}


def check_version(request: McpRequest) -> None:
    """Raise ProtocolError for a request of a revision that has no sessions, and is not this one, or is incomplete."""
    if request.version is None:
        return
    if request.version != LATEST:
        data = {"supported": [LATEST, *reversed(_WITH_HANDSHAKE)], "requested": request.version}
        raise ProtocolError(UNSUPPORTED_VERSION, "Unsupported protocol version", data)
    if not isinstance(request.params["_meta"].get(_CAPABILITIES), dict):
        raise ProtocolError(INVALID_PARAMS, f"params._meta lacks {_CAPABILITIES}.")


def waits_long(request: McpRequest) -> bool:
    """Whether a request calls a tool that waits for longer than proxies let a connection be silent."""
    tool, arguments = TOOLS.get(str(request.params.get("name"))), request.params.get("arguments")
    if request.method != "tools/call" or tool is None or not tool.waits or not isinstance(arguments, dict):
        return False
    seconds = arguments.get("seconds")
    return isinstance(seconds, int) and seconds > QUIET_WAIT


def shortened(request: McpRequest) -> McpRequest:
    """Return a request that waits as long as proxies let a connection be silent."""
    arguments = {**request.params["arguments"], "seconds": QUIET_WAIT}
    return replace(request, params={**request.params, "arguments": arguments})


async def _result(request: McpRequest, send: Send, now: Callable[[], float]) -> dict[str, Any]:
    match request.method:
        case "server/discover":
            versions = {"supportedVersions": [LATEST, *reversed(_WITH_HANDSHAKE)]}
            return {**versions, "capabilities": _CAPABLE, "instructions": INSTRUCTIONS, **_cached()}
        case "tools/list":
            listed = {"tools": [tool.described() for tool in TOOLS.values()]}
            return listed if request.version is None else {**listed, **_cached()}
        case "tools/call":
            return await _call(request.params, send, now)
        case "initialize" if request.version is None:
            asked = request.params.get("protocolVersion")
            version = asked if asked in _WITH_HANDSHAKE else _WITH_HANDSHAKE[-1]
            about = {"serverInfo": _SERVER, "instructions": INSTRUCTIONS}
            return {"protocolVersion": version, "capabilities": _CAPABLE, **about}
        case "ping" if request.version is None:
            return {}
    raise ProtocolError(UNKNOWN_METHOD, f"IMQ has no method {request.method[:100]}.")


def _cached() -> dict[str, Any]:
    """Return how long clients may keep an answer that is the same for all callers."""
    return {"ttlMs": _CACHED_MS, "cacheScope": "public"}


async def _call(params: Mapping[str, Any], send: Send, now: Callable[[], float]) -> dict[str, Any]:
    """Call a tool. What the tool refuses is a result, so that the model reads it."""
    tool = TOOLS.get(str(params.get("name")))
    arguments = params.get("arguments") or {}
    if tool is None or not isinstance(arguments, dict):
        names = ", ".join(TOOLS)
        raise ProtocolError(INVALID_PARAMS, f"Call one of {names}, with an object of arguments.")
    try:
        status, body = await tool.call(arguments, send, now)
    except MalformedCall as error:
        status, body = 400, {"error": str(error)}
    text = {"type": "text", "text": json.dumps(body)}
    return {"content": [text], "structuredContent": body, "isError": status >= 400}
