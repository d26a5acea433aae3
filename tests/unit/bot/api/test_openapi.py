"""The description of the API: complete, the same as what is checked in, and made of plain data."""

import json
import re
from typing import cast

import pytest
from aiohttp import web

from bot.api.app import PREFIX, create_api, document, routes
from bot.api.payload import Payload
from bot.api.permissions import Access
from bot.api.routes import Caller, Route, Variable, parts
from bot.api.views import PriorityCall
from docs import calls
from docs.generate import OPENAPI, ROOT
from queue_engine.commands.commands import PRIORITIES
from queue_engine.core.database.database import Database
from queue_engine.effects.context import Engine
from queue_engine.store import Store
from tests.unit.bot.api.api_server import an_api_server

ROUTES = routes(cast(Engine, None), cast(Access, None))


async def test_document_has_every_route_of_the_application_and_no_other(sqlite_database: Database) -> None:
    """The document lists every call, and each listed call exists."""
    async with an_api_server(Store(sqlite_database)) as server:
        served = {
            (route.method.lower(), PREFIX + route.resource.canonical)
            for route in create_api(server.engine, cast(Access, None)).router.routes()
            # HEAD is answered wherever GET is.
            if route.resource is not None and route.method != "HEAD"
        }
    described = {(method, path) for path, item in document(ROUTES)["paths"].items() for method in item}
    assert described == served


def test_document_checked_in_is_that_of_the_routes() -> None:
    """`make docs` renews it; what is published is what is answered."""
    assert (ROOT / OPENAPI).read_text(encoding="utf-8") == calls.openapi()


def test_document_refers_to_nothing_that_it_does_not_hold() -> None:
    """Every `$ref` of it leads somewhere, and every operation has a name of its own."""
    openapi = document(ROUTES)
    referred = set(re.findall(r'"\$ref": "#/components/schemas/([^"]+)"', json.dumps(openapi)))
    assert referred <= set(openapi["components"]["schemas"])
    names = [operation["operationId"] for item in openapi["paths"].values() for operation in item.values()]
    assert len(names) == len(set(names)) == len(ROUTES)


def test_route_is_described_with_its_variables_and_what_it_asks_for() -> None:
    """A token is asked for, each variable explained; calls that write take a body and an Idempotency-Key."""
    for route in ROUTES:
        operation = document([route])["paths"][PREFIX + route.template][route.method.lower()]
        assert (operation["security"] == []) == (route.caller is Caller.ANYONE), route
        descriptions = {
            each["name"]: each.get("description") for each in operation["parameters"] if each["in"] == "path"
        }
        assert set(descriptions) == {part.name for part in parts(route.path) if isinstance(part, Variable)}, route
        assert all(descriptions.values()), route
        headers = [each["name"] for each in operation["parameters"] if each["in"] == "header"]
        assert headers == ([] if route.method == "GET" else ["Idempotency-Key"]), route
        assert (route.body is None) == (route.method == "GET"), route
        assert {"400", "401", "403", "404", "503"} <= set(operation["responses"]), route


def test_path_with_braces_in_its_patterns_becomes_a_template() -> None:
    """A pattern may hold counts and classes; what is left is the variable's name."""
    route = Route("GET", r"/a/{b:[^/]{1,3}}/c/{d}", _nothing, "look", "Looks.", Caller.ANYONE, {200: None})
    assert route.template == "/a/{b}/c/{d}"
    assert parts(route.path) == ["/a/", Variable("b", "[^/]{1,3}"), "/c/", Variable("d", "[^/]+")]


def test_body_with_a_field_that_has_to_be_there_is_required() -> None:
    """Generated clients then refuse to send the call without a body."""

    class Needed(Payload):
        what: str

    openapi = document([Route("PUT", "/a", _nothing, "put", "Puts.", Caller.ANYONE, {200: None}, body=Needed)])
    assert openapi["paths"]["/api/v1/a"]["put"]["requestBody"]["required"] is True


@pytest.mark.parametrize(("given", "read"), [(10, 10), (10.0, 10), (-1000, -1000), ("high", "high")])
def test_priority_that_is_points_or_a_word_is_taken(given: object, read: object) -> None:
    """JSON has one kind of number: 10.0 is ten."""
    assert PriorityCall.model_validate({"priority": given}).priority == read


@pytest.mark.parametrize("given", [1001, -1001, 1.5, True, "10", "urgent", None, [], float("inf"), float("nan")])
def test_priority_that_is_neither_is_not(given: object) -> None:
    """Nothing is guessed."""
    with pytest.raises(ValueError, match="priority"):
        PriorityCall.model_validate({"priority": given})


def test_words_for_priorities_are_those_of_commands() -> None:
    """People and programs say the same."""
    schema = PriorityCall.model_json_schema()["properties"]["priority"]
    assert {word for each in schema["anyOf"] for word in each.get("enum", ())} == set(PRIORITIES)


async def _nothing(_request: web.Request) -> web.Response:
    raise AssertionError("nobody calls")
