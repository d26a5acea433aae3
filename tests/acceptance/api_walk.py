"""Every call that IMQ answers over HTTP, so that a route cannot be added and forgotten by the tests that attack."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from bot.web.pages.site import ROUTES
from tests.acceptance.world import World

OUTSIDE = {
    ("POST", "/mcp"),
    ("POST", "/webhook"),
    ("GET", "/healthz"),
    ("GET", "/readyz"),
    ("GET", "/metrics"),
    ("GET", "/queue/status"),
    ("GET", "/api/v1/openapi.json"),
    ("GET", "/setup/installed"),
    ("GET", "/.well-known/imq-keys.json"),
    ("POST", "/api/v1/login/device"),
    ("POST", "/api/v1/login/device/token"),
}
"""What IMQ answers without a token; `test_device_login.py` attacks the logins."""

STREAMS = {("GET", "/api/v1/events")}
"""They have no end: `test_event_streams.py` reads them."""

PATTERN = re.compile(r"\{(\w+):[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")
"""A variable of a route with its pattern."""

_OF_KIND: Mapping[str, Any] = {"integer": 1, "string": "high", "boolean": True, "null": None, "array": [], "object": {}}
_OF_FORMAT = {"date-time": "2026-02-01T00:00:00Z"}


@dataclass(frozen=True)
class Call:
    """One call of the document: its path has variables."""

    method: str
    template: str
    body: Any
    query: str = ""
    """The required query, with its question mark."""

    @property
    def writes(self) -> bool:
        return self.method != "GET"

    @property
    def of_repository(self) -> bool:
        return "{repo}" in self.template

    def path(self, repository: str, *, number: int = 1, branch: str = "main") -> str:
        """The path, about this repository."""
        owner, _, name = repository.partition("/")
        ids = {"id": "0" * 32, "process_id": "0" * 32, "sha": "0" * 40, "tree": "0" * 40}
        filled = {"owner": owner, "repo": name, "number": number, "branch": branch, **ids}
        return self.template.format(**filled) + self.query


def calls(document: Mapping[str, Any]) -> Iterator[Call]:
    """Every call of an OpenAPI document that needs a token, with the least body that it takes."""
    for template, methods in document["paths"].items():
        for method, operation in methods.items():
            if (method.upper(), template) in STREAMS:
                continue
            if operation["security"]:
                yield Call(method.upper(), template, _body(document, operation), _query(document, operation))


def served(world: World) -> set[tuple[str, str]]:
    """Every method and path that the real application routes, those of its parts included; but no page.

    `test_pages_hide.py` walks pages.
    """
    app = world.bot.application()
    pages = {("GET", "/static/{name}")} | {(method, PATTERN.sub(r"{\1}", path)) for method, path in app[ROUTES]}
    routes = {
        (route.method, route.resource.canonical)
        for route in app.router.routes()
        if route.method != "HEAD" and route.resource is not None
    }
    assert pages <= routes
    # A refusal of every other method, beside the routes that take no token.
    return {each for each in routes - pages if each[0] != "*" or ("POST", each[1]) not in OUTSIDE}


def _query(document: Mapping[str, Any], operation: Mapping[str, Any]) -> str:
    required = [each for each in operation.get("parameters", ()) if each["in"] == "query" and each.get("required")]
    named = "&".join(f"{each['name']}={_example(document, each['schema'])}" for each in required)
    return f"?{named}" if named else ""


def _body(document: Mapping[str, Any], operation: Mapping[str, Any]) -> Any:
    if "requestBody" not in operation:
        return None
    return _example(document, operation["requestBody"]["content"]["application/json"]["schema"])


def _example(document: Mapping[str, Any], schema: Mapping[str, Any]) -> Any:
    if "$ref" in schema:
        return _example(document, document["components"]["schemas"][schema["$ref"].rpartition("/")[2]])
    if "anyOf" in schema:
        return _example(document, schema["anyOf"][0])
    if schema.get("type") == "object":
        return {name: _example(document, schema["properties"][name]) for name in schema.get("required", ())}
    if schema.get("type") == "array":
        return [_example(document, schema["items"]) for _ in range(schema.get("minItems", 0))]
    if "format" in schema:
        return _OF_FORMAT[schema["format"]]
    return schema["enum"][0] if "enum" in schema else _OF_KIND[schema["type"]]
