"""A server and its clients over real sockets."""

import asyncio
import hashlib
import hmac
import json
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from datetime import timedelta
from typing import cast

from bot.http.connections import Limits
from tests.support.real_time import LIMIT

SECRET = "a secret that nobody guesses, and long"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SHORT = timedelta(milliseconds=30)


@dataclass
class Client:
    """A socket, and what a client of ill will does with it."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def send(self, data: bytes) -> None:
        self.writer.write(data)
        await self.writer.drain()

    def pause(self) -> None:
        """Take nothing more of what the server sends."""
        cast(asyncio.ReadTransport, self.writer.transport).pause_reading()

    async def status(self) -> int:
        """The status of the next answer, whose body is read."""
        async with asyncio.timeout(LIMIT):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await self.reader.readexactly(length)
        return int(head.split()[1])

    async def dropped(self) -> bytes:
        """What came until the server ended the connection."""
        got = bytearray()
        async with asyncio.timeout(LIMIT):
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
    release: asyncio.Event = field(default_factory=asyncio.Event)
    working: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    async def connect(self, data: bytes = b"") -> Client:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.stack.callback(writer.close)
        client = Client(reader, writer)
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
