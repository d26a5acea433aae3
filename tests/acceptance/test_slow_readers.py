"""A reader of events who takes no bytes is cut off, and holds nothing up."""

import asyncio
import socket
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer

from bot.api.permissions import Access
from bot.http.client_address import ClientAddresses
from bot.web.live.streams import EventStreams, StreamLimits
from queue_engine.store.tokens import Token
from tests.acceptance.failed_requests import opaque_ids
from tests.acceptance.page_readers import person
from tests.acceptance.test_event_streams import queued, record
from tests.acceptance.world import World
from tests.support.real_time import LIMIT

_SMALL = 4096
"""Bytes that the kernel keeps for either side, so that few events fill its buffers."""
_LARGE = 50_000
"""Bytes of an event: the server waits for its reader after 64 kB."""


@pytest.mark.process
async def test_connection_that_takes_no_bytes_is_cut_off(world: World) -> None:
    """A write that does not drain within its limit ends the stream, and the reader's place is free again."""
    await queued(world, "change")
    bot, token = world.bot, person(world, "mona").token
    limits = StreamLimits(send_seconds=0.05)
    access = Access(bot.engine, bot.gateway.people)
    streams = EventStreams(
        bot.engine, access, bot.feed, bot.watch, ids=opaque_ids(world), addresses=ClientAddresses(()), limits=limits
    )
    ended = asyncio.Event()

    async def renew(_request: web.Request) -> Token:
        return token

    async def serve(request: web.Request) -> web.StreamResponse:
        assert request.transport is not None
        its_own: Any = request.transport.get_extra_info("socket")
        its_own.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SMALL)
        request.transport.set_write_buffer_limits(0)
        try:
            return await streams.serve(request, renew)
        finally:
            ended.set()

    app = web.Application()
    app.router.add_get("/events", serve)
    async with asyncio.timeout(LIMIT), TestServer(app) as server:
        loop = asyncio.get_running_loop()
        with socket.socket() as reader:
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
            reader.setblocking(False)
            await loop.sock_connect(reader, ("127.0.0.1", server.port))
            await loop.sock_sendall(reader, b"GET /events HTTP/1.1\r\nHost: imq\r\n\r\n")
            assert b"200 OK" in await loop.sock_recv(reader, 64)
            assert streams.open == 1
            repository, sent = world.repository.record.id, 0
            while not ended.is_set():
                await record(world, repository, "main", "x" * _LARGE)
                sent += 1
            assert sent > 0, "it ended before any event"
    assert streams.open == 0
    assert bot.feed.readers == 0
