"""A server and its clients over real sockets, in virtual time: the loop's clock moves only while a client is awaited.

A limit of the server that ran in real time would end connections of a test on a busy machine.
"""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeVar, cast

from bot.http.connections import Limits

SECRET = "a secret that nobody guesses, and long"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SHORT = timedelta(seconds=1)

_STEP = 0.01
"""Seconds that pass whenever all tasks ran: a hundred times are `SHORT`, and less than the server's own limits."""

T = TypeVar("T")


class Time:
    """The clock of a test's loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._now = 0.0
        loop.time = lambda: self._now  # type: ignore[method-assign]

    async def until(self, awaited: Coroutine[Any, Any, T]) -> T:
        """Let time pass until this is done; fails once the server's own, longer limits come near."""
        task = asyncio.create_task(awaited)
        end = self._now + 8 * SHORT.total_seconds()
        while not task.done():
            assert self._now < end
            self._now += _STEP
            await asyncio.sleep(0)
        return await task


@dataclass
class Client:
    """A socket, and what a client of ill will does with it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter
    time: Time

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def pause(self) -> None:
        """Take nothing more of what the server sends."""
        cast(asyncio.ReadTransport, self.writer.transport).pause_reading()

    async def status(self) -> int:
        """The status of the next answer, whose body is read."""
        head = await self.reader.readuntil(b"\r\n\r\n")
        length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
        await self.reader.readexactly(length)
        return int(head.split()[1])

    async def dropped(self) -> bytes:
        """What came until the server ended the connection; time passes meanwhile."""
        return await self.time.until(self._rest())

    async def _rest(self) -> bytes:
        got = bytearray()
        try:
            while part := await self.reader.read(2**16):
                got += part
        except ConnectionError:
            pass
        return bytes(got)


@dataclass
class Server:
    """A server, its sockets, and requests of `GET /work` that last until `release` is set."""

    port: int
    stack: AsyncExitStack
    time: Time
    release: asyncio.Event = field(default_factory=asyncio.Event)
    working: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def connect(self, data: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.stack.callback(writer.close)
        client = Client(reader, writer, self.time)
        await client.send(data)
        return client

    async def deliver(self, size: int, sent: int | None = None) -> Client:
        """Begin a signed delivery of that size, and send so much of it, all if None."""
        payload = {"action": "x", "installation": {"id": 9}, "repository": {"id": 5, "full_name": "ada/engine"}}
        body = json.dumps(payload).encode().ljust(size)
        signature = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        head = (
            f"POST /webhook HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\nContent-Type: application/json\r\n"
            f"X-GitHub-Event: star\r\nX-GitHub-Delivery: d-1\r\nX-Hub-Signature-256: sha256={signature}\r\n\r\n"
        )
        return await self.connect(head.encode() + body[:sent])


Serve = Callable[[Limits], Awaitable[Server]]
