"""One connection, fed by hand: which limit runs when, what is counted, and how it ends. No time passes."""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from aiohttp import web

from bot.http.connections import Connections, Limits
from bot.http.protocol import ClientConnection, notifying
from tests.support.real_time import LIMIT

HEAD = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"
LIMITS = Limits()
HEADER, ANSWER = LIMITS.header.total_seconds(), LIMITS.answer.total_seconds()


class Wire(asyncio.Transport):
    """Takes what is written, and remembers how it was ended."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.ended: list[str] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def is_closing(self) -> bool:
        return bool(self.ended)

    def close(self) -> None:
        self.ended.append("close")

    def abort(self) -> None:
        self.ended.append("abort")

    def pause_reading(self) -> None:
        """Nothing more comes anyway."""

    def resume_reading(self) -> None:
        """Nor now."""


class Counted(Connections):
    """Counts the steps of its clients."""

    def __init__(self) -> None:
        super().__init__(LIMITS)
        self.progress = 0
        self.steps = asyncio.Semaphore(0)

    def progressed(self, client: Any) -> None:
        super().progressed(client)
        self.progress += 1
        self.steps.release()


@dataclass
class Timer:
    """A limit that runs."""

    seconds: float
    run_out: Callable[[], object]
    cancelled: bool = False

    def cancel(self) -> None:
        self.cancelled = True


@dataclass
class Bench:
    """A connection, its wire, all of its server's connections, its timers, and requests that last until released."""

    connection: ClientConnection
    wire: Wire
    all: Counted
    timers: list[Timer]
    release: asyncio.Event = field(default_factory=asyncio.Event)
    begun: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(0))

    @property
    def running(self) -> list[float]:
        return [timer.seconds for timer in self.timers if not timer.cancelled]

    async def answered(self) -> None:
        """Let the request at work be answered."""
        self.release.set()
        async with asyncio.timeout(LIMIT):
            for _ in ("a whole header", "an answer taken"):
                await self.all.steps.acquire()


@pytest.fixture
async def bench(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Bench]:
    loop, timers = asyncio.get_running_loop(), list[Timer]()

    async def serve(_request: web.BaseRequest) -> web.Response:
        found.begun.release()
        await found.release.wait()
        return web.Response()

    server, connections, wire = web.Server(serve), Counted(), Wire()
    server.request_factory = notifying(server.request_factory)
    connection = ClientConnection(server, connections, LIMITS, loop=loop)
    found = Bench(connection, wire, connections, timers)

    def call_later(delay: float, callback: Callable[[], object], *_: object, **__: object) -> Timer:
        timers.append(Timer(delay, callback))
        return timers[-1]

    with monkeypatch.context() as patched:
        patched.setattr(loop, "call_later", call_later)
        connection.connection_made(wire)
        yield found
    found.release.set()
    connection.connection_lost(None)
    await server.shutdown(1)


async def test_header_has_one_limit_however_many_bytes_it_comes_in(bench: Bench) -> None:
    """Slow senders: no byte buys more time, in the first request nor in a later one."""
    for byte in HEAD[:-1]:
        bench.connection.data_received(bytes([byte]))
    assert [timer.seconds for timer in bench.timers] == bench.running == [HEADER]
    bench.connection.data_received(HEAD[-1:])
    await bench.begun.acquire()
    assert bench.running == [], "the server is at work"
    await bench.answered()
    assert [timer.seconds for timer in bench.timers][:2] == [HEADER, ANSWER]
    assert HEADER not in bench.running, "it may be idle for longer"
    later = len(bench.timers)
    for byte in HEAD[:5]:
        bench.connection.data_received(bytes([byte]))
    assert [timer.seconds for timer in bench.timers[later:] if timer.seconds == HEADER] == [HEADER]


async def test_limit_that_runs_out_aborts_the_connection(bench: Bench) -> None:
    """To close it would wait until a client that reads nothing has taken all that was written."""
    bench.timers[0].run_out()
    assert (bench.wire.ended, len(bench.all)) == (["abort"], 0)


async def test_client_progresses_by_a_whole_header_and_by_taking_its_answer(bench: Bench) -> None:
    """So among those that wait it is the newest, and the last to be dropped for a new one."""
    bench.connection.data_received(HEAD[:-1])
    assert bench.all.progress == 0
    bench.connection.data_received(HEAD[-1:])
    await bench.begun.acquire()
    assert bench.all.progress == 1
    await bench.answered()
    assert bench.all.progress == 2


async def test_bytes_of_an_unfinished_request_are_given_back_with_its_connection(bench: Bench) -> None:
    """A crowd that hangs up leaves nothing behind."""
    bench.connection.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n")
    bench.connection.data_received(b"12345")
    assert bench.all._held > 5
    assert bench.connection.waits
    bench.connection.connection_lost(None)
    assert (bench.all._held, len(bench.all)) == (0, 0)


async def test_drop_of_a_body_that_is_read_no_further_ends_no_other_connection(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Freeing the body has aiohttp parse on: the client whose bytes were too many lost its connection by an error."""
    bench.connection.data_received(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 9999999\r\n\r\n")
    await bench.begun.acquire()
    for _ in range(20):
        bench.connection.data_received(b"a" * 16_000)
    monkeypatch.setattr(bench.all, "_limits", Limits(held_bytes=1000, unfinished_bytes=1000))
    bench.all.received(1)
    assert (bench.wire.ended, bench.all._held, len(bench.all)) == (["abort"], 1, 0)


async def test_bytes_of_a_request_at_work_are_counted_until_it_is_done(bench: Bench) -> None:
    """They are in memory although its client has gone: a crowd that does not wait for answers is bounded, too."""
    bench.connection.data_received(HEAD)
    await bench.begun.acquire()
    assert not bench.connection.waits
    bench.connection.connection_lost(None)
    assert bench.all._held > 0
