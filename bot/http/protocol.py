"""One connection of a client: aiohttp's own, with limits to time and bytes.

aiohttp bounds idle connections (`keepalive_timeout`), header fields, pipelined requests, and unread bodies
(`lingering_time`). It has no time limit for a header or for a client that does not take its answer, no bound over all
connections, and it logs whatever is not HTTP as an error of the server's.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from datetime import timedelta
from typing import Any

import structlog
from aiohttp import StreamReader, web
from aiohttp.http import HttpProcessingError

from bot.http.connections import Connections, Limits

_HEADER_COPIES = 2
"""Copies of a header in memory: aiohttp keeps each field as bytes and as text before the header is complete."""

_MAX_FIELDS = 64
"""In a header. GitHub sends about 12, proxies add some."""

_MAX_LINES, _MIN_BYTES_PER_LINE = 512, 64
"""How many lines may come at once, and how long the lines beyond these must be on average. A body in chunks of one byte
has two lines for each: parsing 10 MB of those had everybody wait for two seconds (aiohttp #11894 bounds their memory;
h2o/picohttpparser #81 refuses such bodies, too)."""

_MAX_READ = 16 * 1024
"""Bytes that are read from one connection before the others are read."""

log = structlog.get_logger(__name__)


class ClientConnection(web.RequestHandler):
    """A connection, which is dropped when its client takes longer or more than `limits` and `connections` grant."""

    __slots__ = ("_answering", "_connections", "_handling", "_held", "_limits", "_payload", "_timer", "lost")

    def __init__(
        self, server: web.Server, connections: Connections, limits: Limits, *, loop: asyncio.AbstractEventLoop
    ) -> None:
        super().__init__(
            server,
            loop=loop,
            access_log=None,  # type: ignore[arg-type] # documented: None logs no access
            # No legitimate sender compresses a body, and anyone could make the server inflate one.
            auto_decompress=False,
            keepalive_timeout=limits.idle.total_seconds(),
            lingering_time=limits.lingering.total_seconds(),
            max_headers=_MAX_FIELDS,
        )
        self._connections = connections
        self._limits = limits
        self._payload: StreamReader | None = None
        self._handling = False
        self._answering = False
        self._held = 0
        self._timer: asyncio.TimerHandle | None = None
        self.lost = asyncio.Event()
        """Set when the connection is lost: for handlers that wait while nothing is sent."""

    @property
    def held(self) -> int:
        """Bytes of its request that are in memory."""
        return self._held

    @property
    def waits(self) -> bool:
        """Whether its client has yet to send all of a request, or to take its answer."""
        return not self._handling or self._answering or not self._has_whole_body()

    def drop(self) -> None:
        """End the connection at once."""
        if isinstance(self.transport, asyncio.WriteTransport):
            self.transport.abort()
        self._ended()

    def begin(self, payload: StreamReader) -> None:
        """Begin to handle a request whose header is complete; `payload` is its body."""
        self._payload, self._handling = payload, True
        self._stop_timer()
        self._connections.progressed(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Start the time limit for the header."""
        super().connection_made(transport)
        # With asyncio's 256 KiB, 512 clients would fill 128 MiB in one turn of the loop, before any is dropped.
        transport.max_size = _MAX_READ  # type: ignore[attr-defined]
        self._drop_after(self._limits.header)
        self._connections.opened(self)

    def connection_lost(self, exc: BaseException | None) -> None:
        """Stop the timer and free the bytes."""
        super().connection_lost(exc)
        self.lost.set()
        self._ended()

    def data_received(self, data: bytes) -> None:
        """Receive bytes from the client, unless its connection was dropped for them.

        aiohttp calls this without bytes, too, when a body is taken that it had stopped to read. A drop takes one.
        """
        if self.transport is None or self.transport.is_closing():
            return
        if not self._handling and self._timer is None and self._has_whole_body():
            self._drop_after(self._limits.header)
        size = len(data) if self._handling else len(data) * _HEADER_COPIES
        self._held += size
        self._connections.received(size)
        if data.count(b"\r\n") > _MAX_LINES + len(data) // _MIN_BYTES_PER_LINE:
            log.debug("connection_dropped", why="too many lines", size=len(data))
            self.drop()
        elif self.transport is not None and not self.transport.is_closing():
            super().data_received(data)

    async def finish_response(
        self, request: web.BaseRequest, resp: web.StreamResponse, start_time: float | None
    ) -> tuple[web.StreamResponse, bool]:
        """Send the answer, which the client must take within the limit."""
        self._answering = True
        self._drop_after(self._limits.answer)
        try:
            return await super().finish_response(request, resp, start_time)
        finally:
            self._answering = self._handling = False
            self._stop_timer()
            self._release()
            self._connections.progressed(self)

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        """Answer malformed requests, which are no error of the server."""
        if not isinstance(exc, HttpProcessingError):
            return super().handle_error(request, status, exc, message)
        log.debug("request_malformed", error=type(exc).__name__)
        # Its traceback and this frame reference each other, and would keep the bytes until garbage is collected.
        exc.__traceback__ = None
        answer = _Malformed(text='{"error": "the request is not understood: it is not HTTP/1.1"}', status=400)
        answer.content_type = "application/json"
        answer.force_close()
        return answer

    def log_exception(self, *args: Any, **kw: Any) -> None:
        """Log an error of the server; malformed bodies are only debug lines."""
        if isinstance(kw.get("exc_info"), web.RequestPayloadError | HttpProcessingError):
            log.debug("request_malformed", error=type(kw["exc_info"]).__name__)
        else:
            super().log_exception(*args, **kw)

    def _has_whole_body(self) -> bool:
        return self._payload is None or self._payload.is_eof()

    def _drop_after(self, limit: timedelta) -> None:
        self._stop_timer()
        self._timer = self._loop.call_later(limit.total_seconds(), self._time_out)

    def _time_out(self) -> None:
        log.debug("connection_dropped", why="too slow")
        self.drop()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ended(self) -> None:
        """Free the connection's bytes, unless its request is still handled, which frees them at its end."""
        self._stop_timer()
        if self.waits:
            if self._payload is not None and self._payload.exception() is None:
                # Its buffer would stay until garbage is collected. A handler that waits for bytes has left none.
                with suppress(RuntimeError):
                    self._payload.read_nowait()
            self._release()
        self._connections.closed(self)

    def _release(self) -> None:
        self._connections.released(self._held)
        self._held = 0


async def hide_server(_request: web.BaseRequest, answer: web.StreamResponse) -> None:
    """Leave out the header `Server`, in which aiohttp names itself and Python with their versions."""
    answer.headers.popall("Server", None)


class _Malformed(web.Response):
    """An answer that reaches no application, and so no signal of one."""

    async def _prepare_headers(self) -> None:
        await super()._prepare_headers()
        self.headers.popall("Server", None)


def notifying(make: Callable[..., web.BaseRequest]) -> Callable[..., web.BaseRequest]:
    """Wrap the factory of requests, so that it notifies the connection of each, and drops it where `make` fails."""

    def make_request(message: Any, payload: StreamReader, protocol: ClientConnection, *rest: Any) -> web.BaseRequest:
        try:
            request = make(message, payload, protocol, *rest)
            _check_expectation(request)
        except ValueError as error:
            # aiohttp parses some URLs only here (`http://xn--/`), and would leave the connection open.
            log.debug("request_malformed", error=repr(error))
            protocol.drop()
            raise asyncio.CancelledError from error
        protocol.begin(payload)
        return request

    return make_request


def _check_expectation(request: web.BaseRequest) -> None:
    """Raise ValueError for an unknown expectation, which aiohttp would quote, and fails if it is no text."""
    expected = request.headers.get("Expect", "100-continue")
    if expected.casefold() != "100-continue":
        raise ValueError(f"expects {expected!r}")
