"""The API as one application, mounted under `/api/v1`."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.api.access import Access
from bot.api.auth import authentication
from bot.api.branches import BranchRoutes
from bot.api.bulk import BulkRoutes
from bot.api.dead_letters import DeadLetterRoutes
from bot.api.doctor import DoctorRoutes, Examine
from bot.api.errors import errors_as_json
from bot.api.events import EventRoutes
from bot.api.head_branches import HeadBranchQuery, HeadBranchRoutes
from bot.api.idempotent import idempotency
from bot.api.login import LoginRoutes
from bot.api.openapi import document
from bot.api.queue import QueueRoutes
from bot.api.routes import Route
from bot.api.shadow import ShadowRoutes
from bot.api.statistics import StatisticsRoutes
from bot.api.waits import ChangeWaits
from queue_engine.effects.context import Engine

PREFIX = "/api/v1"
"""The path prefix of the API; its published routes do not change."""

DOCUMENT = f"{PREFIX}/openapi.json"
"""The path of the OpenAPI document, which needs no token."""


@dataclass(frozen=True, slots=True)
class ApiParts:
    """What routes need of the process that serves them; None where they are described, and not served."""

    examine: Examine | None = None
    logins: LoginRoutes | None = None
    heads: HeadBranchQuery | None = None
    waits: ChangeWaits | None = None
    stream: Handler | None = None


_DESCRIBED = ApiParts()


def routes(engine: Engine, access: Access, parts: ApiParts = _DESCRIBED) -> Sequence[Route]:
    """List every route that takes a token."""
    waits = parts.waits or ChangeWaits(engine)
    made = (
        parts.logins or LoginRoutes(engine, None),
        DeadLetterRoutes(engine),
        DoctorRoutes(parts.examine),
        EventRoutes(parts.stream),
        BranchRoutes(engine, access),
        BulkRoutes(engine, access, waits),
        HeadBranchRoutes(access, parts.heads),
        QueueRoutes(engine, access, waits),
        ShadowRoutes(engine, access),
        StatisticsRoutes(engine, access),
    )
    return [route for each in made for route in each.routes()]


def create_api(
    engine: Engine, access: Access, parts: ApiParts = _DESCRIBED, *, keys_required: bool = True
) -> web.Application:
    """Create the API with its middlewares: errors as JSON, authentication, idempotency keys."""
    authenticated = authentication(engine.store, engine.clock)
    app = web.Application(middlewares=[errors_as_json, authenticated, idempotency(engine, required=keys_required)])
    made = routes(engine, access, parts)
    app.add_routes([web.route(route.method, route.path, route.handler) for route in made])
    return app


def open_routes(logins: LoginRoutes) -> Sequence[web.RouteDef]:
    """Return the routes that take no token, and so are not in the API's application."""
    made = [web.route(route.method, PREFIX + route.path, route.handler) for route in logins.open_routes()]
    # Otherwise the API's application, which is mounted beside them, says that there is no such address.
    return [*made, *(web.route("*", each.path, partial(_refuse_method, allowed=each.method)) for each in made)]


async def _refuse_method(request: web.Request, *, allowed: str) -> web.StreamResponse:
    async def refuse(request: web.Request) -> web.StreamResponse:
        raise web.HTTPMethodNotAllowed(request.method, [allowed])

    return await errors_as_json(request, refuse)


def described_routes(engine: Engine, access: Access) -> Sequence[Route]:
    """List every route of the API, for its description."""
    logins = LoginRoutes(engine, None)
    return [*routes(engine, access, ApiParts(logins=logins)), *logins.open_routes()]


def description(routes: Iterable[Route]) -> web.RouteDef:
    """Return the route of the OpenAPI document, which needs no token and so is not in the API's application."""
    # Built at the first request, so that the process starts sooner.
    described = cache(lambda: json.dumps(document(routes)))

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(text=described(), content_type="application/json")

    return web.get(DOCUMENT, handle)
