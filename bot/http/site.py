"""Listen, accept connections within limits, and log a lack of open files once."""

import asyncio
import socket
from typing import Any

import structlog
from aiohttp import web

from bot.http.connections import Connections, Limits
from bot.http.protocol import ClientConnection, notifying
from bot.logs.configure import LogThrottle
from queue_engine.core.timing.clock import Clock

_ACCEPTING = "socket.accept() out of system resource"
"""asyncio's message, a hundred times a second until Python 3.14 (cpython #151615)."""

_BACKLOG = 511
"""Connections that the system queues until they are accepted, as many as for nginx; the system may allow fewer."""

_ADVICE = "The process has no open files left; raise its limit (ulimit -n)."

log = structlog.get_logger(__name__)


class LimitedSite(web.BaseSite):
    """A TCP site whose connections are bounded."""

    __slots__ = ("_connections", "_host", "_limits", "_port", "_socket")

    def __init__(
        self,
        runner: web.BaseRunner,
        host: str | None,
        port: int,
        limits: Limits,
        bound: socket.socket | None = None,
    ) -> None:
        """`bound` is a socket that has the host and the port already."""
        super().__init__(runner, backlog=limits.accepted_at_once)
        self._socket = bound
        self._host = host
        self._port = port
        self._limits = limits
        self._connections = Connections(limits)

    @property
    def name(self) -> str:
        """Return the address on which it listens."""
        return f"http://{self._host or '0.0.0.0'}:{self._port}"  # noqa: S104 - shown only

    async def start(self) -> None:
        """Listen. Raises OSError when the address is not available."""
        await super().start()
        server, loop = self._runner.server, asyncio.get_running_loop()
        if server is None:
            raise RuntimeError("the runner has not been set up")
        server.request_factory = notifying(server.request_factory)

        def connect() -> ClientConnection:
            return ClientConnection(server, self._connections, self._limits, loop=loop)

        if self._socket is None:
            listening = await loop.create_server(connect, self._host, self._port, backlog=self._backlog)
        else:
            listening = await loop.create_server(connect, sock=self._socket, backlog=self._backlog)
        self._server = listening
        for each in listening.sockets:
            # asyncio's backlog is both what it accepts at once and what the system queues; that may be more.
            with each.dup() as queue:
                queue.listen(_BACKLOG)

    def duplicate(self) -> socket.socket:
        """Return a duplicate of the listening socket: while it is open, the system queues clients for it."""
        if not isinstance(self._server, asyncio.Server):
            raise RuntimeError("the site does not listen")
        return self._server.sockets[0].dup()


class AcceptErrors:
    """The event loop's handler of exceptions, which logs those of accepting at most once a minute."""

    def __init__(self, clock: Clock) -> None:
        self._log_throttle = LogThrottle(clock)

    def __call__(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log one exception, unless it is one of many."""
        if context.get("message") != _ACCEPTING:
            loop.default_exception_handler(context)
        elif (repeats := self._log_throttle.count(_ACCEPTING)) is not None:
            error = repr(context.get("exception"))
            log.error("connections_not_accepted", error=error, repeats=repeats, advice=_ADVICE)
