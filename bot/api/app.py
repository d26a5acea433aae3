"""The API as one application, mounted under `/api/v1`."""

import json
from collections.abc import Iterable, Sequence
from functools import cache

from aiohttp import web

from bot.api.access import Access
from bot.api.auth import authentication
from bot.api.branches import BranchRoutes
from bot.api.dead_letters import DeadLetterRoutes
from bot.api.errors import telling_errors
from bot.api.idempotent import idempotency
from bot.api.openapi import document
from bot.api.queue import QueueRoutes
from bot.api.routes import Route
from queue_engine.effects.context import Engine

PREFIX = "/api/v1"
"""Where the API stands; what is published under it stays as it is."""

DOCUMENT = f"{PREFIX}/openapi.json"
"""Where its description stands, for everybody."""


def routes(engine: Engine, access: Access) -> Sequence[Route]:
    """Every route of the API."""
    made = (DeadLetterRoutes(engine), BranchRoutes(engine, access), QueueRoutes(engine, access))
    return [route for each in made for route in each.routes()]


def create_api(engine: Engine, access: Access) -> web.Application:
    """The API's routes, behind what holds for all of them: errors as JSON, a known caller, calls done once."""
    app = web.Application(middlewares=[telling_errors, authentication(engine.store, engine.clock), idempotency(engine)])
    app.add_routes([web.route(route.method, route.path, route.handler) for route in routes(engine, access)])
    return app


def description(routes: Iterable[Route]) -> web.RouteDef:
    """The route, beside the API's application, that answers its OpenAPI document without a token."""
    # Made when it is first asked for: no start waits for it.
    described = cache(lambda: json.dumps(document(routes)))

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(text=described(), content_type="application/json")

    return web.get(DOCUMENT, handle)
