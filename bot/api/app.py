"""The API as one application, mounted under `/api/v1`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from http import HTTPStatus
from typing import Any

from aiohttp import web
from aiohttp.typedefs import Handler

from bot import __version__
from bot.api.api_errors import answering_as_json, errors_as_json
from bot.api.auth import authentication
from bot.api.branch_routes import BranchRoutes
from bot.api.bulk import BulkRoutes
from bot.api.device_login import LoginRoutes
from bot.api.events import EventRoutes
from bot.api.idempotent import idempotency
from bot.api.landing_routes import LandingRoutes
from bot.api.operator_routes import AuditLogRoutes, DeadLetterRoutes, DoctorRoutes, Examine
from bot.api.permissions import Access
from bot.api.pull_request_routes import HeadBranchQuery, QueueRoutes
from bot.api.routes import Answer, Caller, Problem, Route, Variable, parts
from bot.api.waits import ChangeWaits
from queue_engine.core.read_model import adapter
from queue_engine.effects.context import Engine

_COMPONENTS = "#/components/schemas"
PREFIX = "/api/v1"
"""The path prefix of the API; its published routes do not change."""
_WRITING = frozenset({"POST", "PUT", "PATCH", "DELETE"})

_ALWAYS = (400, 404, 405, 429, 503)
_WITH_TOKEN = (401, 403)
_WITH_BODY = (408, 409, 413, 414, 415)
_OF_GITHUB = (502,)
_ASKS_GITHUB = frozenset({Caller.PERSON, Caller.READER, Caller.MAINTAINER})
"""Callers whose permission IMQ asks GitHub for."""

_MEANING: Mapping[int, str] = {
    400: "Headers, query or body are not understood; the sentence names each field.",
    401: "No token, or one that is not known, has expired, or was revoked.",
    403: "The token, or the person that it acts for, may not do this.",
    404: "Nothing at this address, or nothing that the caller may see.",
    405: "Another method is meant.",
    408: "The body came too slowly.",
    409: "The state of things, or the Idempotency-Key, does not fit this call.",
    410: "What was begun has ended.",
    413: "The body is too large.",
    414: "The address is longer than any of this API.",
    415: "The body is no JSON, or is compressed.",
    422: "The pull request is refused, with the reason; or there is no such instant, or it is too far.",
    429: "The queue is full, the caller has made too many calls, or too many of IMQ's own calls to GitHub wait.",
    502: "GitHub refused what the call needs.",
    503: "The database is away, GitHub is in trouble, or its limits are reached.",
}


def document(routes: Iterable[Route]) -> dict[str, Any]:
    """Build the OpenAPI document of these routes as plain data."""
    routes = tuple(routes)
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(PREFIX + route.template, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "IMQ",
            "version": __version__,
            "summary": "The merge queue for GitHub that teams host themselves",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": dict(sorted(paths.items())),
        "components": {
            "securitySchemes": {
                "token": {"type": "http", "scheme": "bearer", "description": "Made with `imq token create`."}
            },
            "schemas": dict(sorted(_schemas(routes).items())),
        },
    }


def _schemas(routes: Sequence[Route]) -> Mapping[str, Any]:
    inputs = {model.__name__: model for route in routes for model in (route.body,) if model is not None}
    outputs = {model.__name__: model for route in routes for model in route.answers.values() if model is not None}
    return {
        **_schema_of(inputs, "validation"),
        **_schema_of({**outputs, Problem.__name__: Problem}, "serialization"),
    }


def _schema_of(models: Mapping[str, Any], mode: Any) -> Mapping[str, Any]:
    """Return the JSON Schemas of these models and of the models they refer to."""
    schemas: dict[str, Any] = {}
    for name, model in models.items():
        schema = adapter(model).json_schema(mode=mode, ref_template=f"{_COMPONENTS}/{{model}}")
        schemas |= schema.pop("$defs", {})
        schemas[name] = schema
    return schemas


def _operation(route: Route) -> dict[str, Any]:
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*_variables(route), *_query(route), *_headers(route)],
        "responses": {str(status): answer for status, answer in sorted(_answers(route).items())},
        "security": [] if route.caller is Caller.ANYONE else [{"token": []}],
    }
    if route.body is not None:
        schema = {"$ref": f"{_COMPONENTS}/{route.body.__name__}"}
        needed = any(field.is_required() for field in route.body.model_fields.values())
        operation["requestBody"] = {"required": needed, "content": {"application/json": {"schema": schema}}}
    return operation


def _variables(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": part.name,
            "in": "path",
            "required": True,
            "description": route.variables.get(part.name, ""),
            "schema": {"type": "string", "pattern": f"^{part.pattern}$"},
        }
        for part in parts(route.path)
        if isinstance(part, Variable)
    ]


def _query(route: Route) -> list[dict[str, Any]]:
    if route.query is None:
        return []
    schema = route.query.model_json_schema()
    return [
        {"name": name, "in": "query", "required": name in schema.get("required", ()), "schema": each}
        for name, each in schema.get("properties", {}).items()
    ]


def _headers(route: Route) -> list[dict[str, Any]]:
    if route.method not in _WRITING or route.caller is Caller.ANYONE:
        return []
    schema = {"type": "string", "pattern": r"^[\x21-\x7e]{1,255}$"}
    return [{"name": "Idempotency-Key", "in": "header", "required": True, "schema": schema}]


def _answers(route: Route) -> dict[int, dict[str, Any]]:
    refusals = {*_ALWAYS, *route.refusals}
    if route.caller is not Caller.ANYONE:
        refusals |= set(_WITH_TOKEN)
    if route.caller in _ASKS_GITHUB:
        refusals |= set(_OF_GITHUB)
    if route.method in _WRITING:
        refusals |= set(_WITH_BODY)
    refused = {status: _answer(_MEANING[status], Problem) for status in refusals}
    return refused | {
        status: _answer(HTTPStatus(status).phrase, model, route.media_type) for status, model in route.answers.items()
    }


def _answer(meaning: str, model: Answer, media_type: str = "application/json") -> dict[str, Any]:
    if model is None:
        return {"description": meaning}
    schema = {"$ref": f"{_COMPONENTS}/{model.__name__}"}
    return {"description": meaning, "content": {media_type: {"schema": schema}}}


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


def described_routes(engine: Engine, access: Access, parts: ApiParts = _DESCRIBED) -> Sequence[Route]:
    """List every route of the API."""
    waits = parts.waits or ChangeWaits(engine)
    made = (
        parts.logins or LoginRoutes(engine, access, None),
        DeadLetterRoutes(engine, access),
        AuditLogRoutes(engine, access),
        DoctorRoutes(parts.examine),
        EventRoutes(parts.stream),
        BranchRoutes(engine, access),
        BulkRoutes(engine, access, waits),
        LandingRoutes(engine, access),
        QueueRoutes(engine, access, waits, parts.heads),
    )
    return [route for each in made for route in each.routes()]


def routes(engine: Engine, access: Access, parts: ApiParts = _DESCRIBED) -> Sequence[Route]:
    """List every route that takes a token."""
    return [each for each in described_routes(engine, access, parts) if each.caller is not Caller.ANYONE]


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
    opened = [each for each in logins.routes() if each.caller is Caller.ANYONE]
    made = [web.route(each.method, PREFIX + each.path, answering_as_json(each.handler)) for each in opened]
    # Otherwise the API's application, which is mounted beside them, says that there is no such address.
    return [*made, *(web.route("*", each.path, partial(_refuse_method, allowed=each.method)) for each in made)]


async def _refuse_method(request: web.Request, *, allowed: str) -> web.StreamResponse:
    async def refuse(request: web.Request) -> web.StreamResponse:
        raise web.HTTPMethodNotAllowed(request.method, [allowed])

    return await errors_as_json(request, refuse)


def description(routes: Iterable[Route]) -> web.RouteDef:
    """Return the route of the OpenAPI document, which needs no token and so is not in the API's application."""
    # Built at the first request, so that the process starts sooner.
    described = cache(lambda: json.dumps(document(routes)))

    async def handle(_request: web.Request) -> web.Response:
        return web.Response(text=described(), content_type="application/json")

    return web.get(DOCUMENT, handle)
