"""The API as one application, mounted under `/api/v1`."""

import json
from collections.abc import Iterable, Sequence
from functools import cache

from aiohttp import web

from bot.api.access import Access
from bot.api.auth import authentication
from bot.api.branches import BranchRoutes
from bot.api.dead_letters import DeadLetterRoutes
from bot.api.doctor import DoctorRoutes, Examine
from bot.api.errors import errors_as_json
from bot.api.idempotent import idempotency
from bot.api.openapi import document
from bot.api.queue import QueueRoutes
from bot.api.routes import Route
from bot.api.shadow import ShadowRoutes
from queue_engine.effects.context import Engine

PREFIX = "/api/v1"
"""The path prefix of the API; its published routes do not change."""

DOCUMENT = f"{PREFIX}/openapi.json"
"""The path of the OpenAPI document, which needs no token."""


def routes(engine: Engine, access: Access, examine: Examine | None = None) -> Sequence[Route]:
    """List every route of the API. `examine` is None where they are described, and not served."""
    made = (
        DeadLetterRoutes(engine),
        DoctorRoutes(examine),
        BranchRoutes(engine, access),
        QueueRoutes(engine, access),
        ShadowRoutes(engine, access),
    )
    return [route for each in made for route in each.routes()]


def create_api(engine: Engine, access: Access, examine: Examine | None = None) -> web.Application:
    """Create the API with its middlewares: errors as JSON, authentication, idempotency keys."""
    app = web.Application(middlewares=[errors_as_json, authentication(engine.store, engine.clock), idempotency(engine)])
    app.add_routes([web.route(route.method, route.path, route.handler) for route in routes(engine, access, examine)])
    return app


def description(routes: Iterable[Route]) -> web.RouteDef:
    """Return the route of the OpenAPI document, which needs no token and so is not in the API's application."""
    # Built at the first request, so that the process starts sooner.
    described = cache(lambda: json.dumps(document(routes)))

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(text=described(), content_type="application/json")

    return web.get(DOCUMENT, handle)
