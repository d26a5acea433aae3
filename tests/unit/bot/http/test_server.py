"""Attacks on the server over real sockets: slow, half-sent, endless and malformed requests, and crowds of them.

Covers `bot/http/limits.py`.
"""

import asyncio
import hashlib
import hmac
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, cast

import pytest
from aiohttp import web
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.http.limits import Limits
from bot.web.application import create_app, serve
from bot.web.readiness import Readiness
from bot.webhooks.receiver import Receiver
from queue_engine.domain.webhook_event import WebhookEvent
from tests.unit.bot.conftest import ManualClock

SECRET = "a secret that nobody guesses, and long"
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
SHORT = timedelta(milliseconds=30)


async def _stored(_hint: WebhookEvent) -> bool:
    return True


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
        async with asyncio.timeout(5):
            head = await self.reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length:"))
            await self.reader.readexactly(length)
        return int(head.split()[1])

    async def dropped(self) -> bytes:
        """What came until the server ended the connection."""
        got = bytearray()
        async with asyncio.timeout(5):
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


@asynccontextmanager
async def _serving(limits: Limits) -> AsyncIterator[Server]:
    clock = ManualClock()
    app = create_app(Receiver(secret=SecretStr(SECRET), own_app_id=1, store=_stored, clock=clock), Readiness({}, clock))
    async with AsyncExitStack() as stack:
        server = Server(0, stack)

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


@pytest.mark.parametrize("sent", [b"", b"GET /healthz HT", b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-A"])
async def test_header_that_does_not_come_ends_the_connection(start: Serve, sent: bytes) -> None:
    """Three hundred such connections stopped everything."""
    server = await start(Limits(header=SHORT))
    assert await (await server.connect(sent)).dropped() == b""


async def test_header_sent_byte_by_byte_ends_the_connection(start: Serve) -> None:
    """A byte now and then does not buy more time."""
    server = await start(Limits(header=SHORT))
    client = await server.connect(HEALTH[:-2] + b"X-Slow: ")
    ended = asyncio.create_task(client.dropped())
    sent = 0
    while not (await asyncio.wait({ended}, timeout=0.002))[0]:
        client.writer.write(b"a")
        sent += 1
    assert 0 < sent < 1000


async def test_second_header_half_sent_ends_the_connection(start: Serve) -> None:
    """A first request that was in order does not buy more time either."""
    server = await start(Limits(header=SHORT))
    client = await server.connect(HEALTH)
    assert await client.status() == 200
    await client.send(HEALTH[:-2])
    assert await client.dropped() == b""


async def test_connection_idle_outlives_the_limit_of_headers(start: Serve) -> None:
    """A proxy keeps its connections for a minute; closing one as a delivery is on its way would lose that."""
    server = await start(Limits(header=SHORT))
    kept = await server.connect(HEALTH)
    assert await kept.status() == 200
    await (await server.connect()).dropped()
    await kept.send(HEALTH)
    assert await kept.status() == 200


async def test_connection_idle_for_long_is_ended(start: Serve) -> None:
    """aiohttp itself would keep it for an hour."""
    server = await start(Limits(idle=SHORT))
    client = await server.connect(HEALTH)
    assert await client.status() == 200
    assert await client.dropped() == b""


async def test_answer_that_nobody_takes_ends_the_connection(start: Serve) -> None:
    """A client that does not read holds no request for ever."""
    server = await start(Limits(answer=SHORT))
    dropped = asyncio.Event()

    def notice(_logger: Any, _method: str, line: Any) -> Any:
        dropped.set()
        return line

    with capture_logs(processors=[notice]) as lines:
        client = await server.connect()
        client.pause()
        await client.send(b"GET /much HTTP/1.1\r\nHost: x\r\n\r\n")
        async with asyncio.timeout(5):
            await dropped.wait()
    assert [line["why"] for line in lines] == ["too slow"]


async def test_half_open_connections_do_not_keep_others_out(start: Serve) -> None:
    """Ten times as many as there are places; those that wait longest make room."""
    server = await start(Limits(connections=10))
    crowd = [await server.connect(HEALTH[:20]) for _ in range(100)]
    client = await server.connect(HEALTH)
    assert await client.status() == 200
    assert await crowd[0].dropped() == b""
    assert await (await server.deliver(100)).status() == 202


async def test_bodies_half_sent_do_not_keep_others_out(start: Serve) -> None:
    """The same with headers that are complete and in order."""
    server = await start(Limits(connections=10))
    crowd = [await server.deliver(100, sent=50) for _ in range(100)]
    assert await (await server.deliver(100)).status() == 202
    assert await crowd[0].dropped() == b""


async def test_requests_at_work_are_finished_when_all_places_are_taken(start: Serve) -> None:
    """A new connection is dropped; none that is being served is."""
    server = await start(Limits(connections=3))
    clients = [await server.connect(b"GET /work HTTP/1.1\r\nHost: x\r\n\r\n") for _ in range(3)]
    for _ in clients:
        await server.working.acquire()
    assert await (await server.connect(HEALTH)).dropped() == b""
    server.release.set()
    assert [await client.status() for client in clients] == [200, 200, 200]


async def test_bodies_in_flight_are_bounded_over_all_connections(start: Serve) -> None:
    """Twenty deliveries of 25 MB took 500 MB. A small one passes beside any number of large ones."""
    server = await start(Limits(connections=20, held_bytes=400_000))
    large = [await server.deliver(90_000, sent=80_000) for _ in range(10)]
    pending = {asyncio.create_task(client.dropped()) for client in large}
    async with asyncio.timeout(5):
        while len(pending) > 4:
            _, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
    assert await (await server.deliver(9_000)).status() == 202
    for task in pending:
        task.cancel()


async def test_body_in_chunks_of_one_byte_is_not_even_parsed(start: Serve) -> None:
    """Ten megabytes of them, unsigned, over forty connections, had everybody wait for six seconds."""
    server = await start(Limits())
    client = await server.connect(
        b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n"
        b"X-GitHub-Event: star\r\nX-GitHub-Delivery: d-1\r\nX-Hub-Signature-256: sha256=" + b"a" * 64 + b"\r\n\r\n"
    )
    client.writer.write(b"1\r\na\r\n" * 10_000)
    assert await client.dropped() == b""


async def test_headers_in_flight_are_bounded_too(start: Serve) -> None:
    """A header may have half a megabyte; a hundred unfinished ones had fifty."""
    server = await start(Limits(connections=20, held_bytes=200_000))
    head = HEALTH[:-2] + b"".join(b"X-%d: %s\r\n" % (field, b"a" * 5000) for field in range(8))
    first, second, third = [await server.connect(head + b"X" * each) for each in (2, 1, 0)]
    assert await first.dropped() == b""
    for client in (second, third):
        await client.send(b"X: b\r\n\r\n")
        assert await client.status() == 200


async def test_bytes_are_given_back_when_requests_end(start: Serve) -> None:
    """Stored, refused or cut off: dozens of deliveries of a third of the bound pass one after another."""
    server = await start(Limits(connections=5, held_bytes=30_000))
    for number in range(25):
        assert await (await server.deliver(10_000)).status() == 202
        refused = await server.connect(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999\r\n\r\n" + b"x" * 9999)
        assert await refused.status() == 404
        cut = await server.deliver(10_000, sent=9_000 + number)
        cut.writer.close()


MALFORMED = [
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"GET\r\n\r\n",
    b"G\x00T / HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://[::1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /\x1b[2J HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nA: b\x00\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -3\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"GET /" + b"a" * 20_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"a" * 20_000 + b"\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: x\r\n" + b"A: b\r\n" * 64 + b"\r\n",
    b"POST /webhook HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
]


async def test_request_malformed_is_a_debug_line_and_no_error(start: Serve, caplog: pytest.LogCaptureFixture) -> None:
    """aiohttp logs each with a traceback, and echoes what was sent."""
    server = await start(Limits())
    caplog.set_level(logging.INFO)
    for data in MALFORMED:
        client = await server.connect(data)
        answer = await client.dropped()
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert b'{"error": "the request is not understood: it is not HTTP/1.1"}' in answer
    assert caplog.records == []


async def test_request_whose_chunks_break_behind_the_answer_is_no_error(
    start: Serve, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer was sent before the body came; what remains is thrown away with the connection."""
    server = await start(Limits(lingering=SHORT))
    caplog.set_level(logging.INFO)
    client = await server.connect(b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n")
    assert await client.status() == 200
    await client.send(b"zz\r\n")
    await client.dropped()
    assert caplog.records == []


@pytest.mark.parametrize("data", [b"GET http://xn--/ HTTP/1.1\r\n", b"GET /healthz HTTP/1.1\r\nExpect: \xff\r\n"])
async def test_request_that_aiohttp_cannot_read_ends_the_connection(
    start: Serve, caplog: pytest.LogCaptureFixture, data: bytes
) -> None:
    """aiohttp finds out too late: it lost the connection for ever, or logged 5 KB of traceback for each request."""
    server = await start(Limits(connections=1))
    client = await server.connect(data + b"Host: x\r\n\r\n")
    assert await client.dropped() == b""
    assert await (await server.connect(HEALTH)).status() == 200
    assert [record for record in caplog.records if record.levelno > logging.DEBUG] == []
