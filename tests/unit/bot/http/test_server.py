"""Attacks on the server over real sockets: slow, half-sent, endless and malformed requests, and crowds of them."""

import asyncio
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.http.connections import Limits
from tests.unit.bot.http.sockets import HEALTH, SHORT, Serve


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
    while not ended.done():
        client.writer.write(b"a")
        sent += 1
        await asyncio.sleep(0)
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


async def test_answer_that_the_client_does_not_read_ends_the_connection(start: Serve) -> None:
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
        await server.time.until(dropped.wait())
    assert [line["why"] for line in lines] == ["too slow"]
