"""Calls that take a key."""

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from queue_engine.store import Store
from tests.unit.bot.api.api_server import ApiServer, an_api_server
from tests.unit.bot.api.calls_with_keys import Works


@pytest.fixture
async def works(store: Store) -> AsyncIterator[Works]:
    made: list[Works] = []

    def routes(server: ApiServer) -> list[web.RouteDef]:
        made.append(Works(server))
        return made[0].routes()

    async with an_api_server(store, routes) as server:
        await server.token("ops", operator=True)
        made[0].gate.set()
        yield made[0]


@pytest.fixture
def server(works: Works) -> ApiServer:
    return works.server
