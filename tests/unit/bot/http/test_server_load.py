"""Many connections, large bodies and malformed requests: what the server takes on, and what it refuses."""

import asyncio
import logging

import pytest

from bot.http.connections import Limits
from tests.unit.bot.http.sockets import HEALTH, SHORT, Serve


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
    server = await start(Limits(connections=20, held_bytes=400_000, unfinished_bytes=400_000))
    large = [await server.deliver(90_000, sent=80_000) for _ in range(10)]
    pending = {asyncio.create_task(client.dropped()) for client in large}
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
    server = await start(Limits(connections=20, held_bytes=200_000, unfinished_bytes=200_000))
    head = HEALTH[:-2] + b"".join(b"X-%d: %s\r\n" % (field, b"a" * 5000) for field in range(8))
    first, second, third = [await server.connect(head + b"X" * each) for each in (2, 1, 0)]
    assert await first.dropped() == b""
    for client in (second, third):
        await client.send(b"X: b\r\n\r\n")
        assert await client.status() == 200


async def test_bytes_are_given_back_when_requests_end(start: Serve) -> None:
    """Stored, refused or cut off: dozens of deliveries of a third of the bound pass one after another."""
    server = await start(Limits(connections=5, held_bytes=30_000, unfinished_bytes=30_000))
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
        assert b"\r\nserver:" not in answer.lower()
        assert answer.startswith(b"HTTP/1.0 400 ")
        assert b'{"error": "the request is not understood: it is not HTTP/1.1"}' in answer
    assert caplog.records == []


@pytest.mark.process
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
