"""What docs/api.md and docs/openapi.json say of the API's calls, taken from the routes that answer them."""

import json
from collections.abc import Mapping, Sequence
from typing import cast

from bot.api.access import Access
from bot.api.app import DOCUMENT, PREFIX, described_routes, document
from bot.api.routes import Caller, Route
from queue_engine.effects.context import Engine

_TOKENS: Mapping[Caller, str] = {
    Caller.ANYONE: "none needed",
    Caller.LOGIN: "of a login",
    Caller.PERSON: "`--write`, of a person who may queue there, or of a service",
    Caller.READER: "of a person who may read there, of a service, or operator",
    Caller.MAINTAINER: "`--maintain`, of a person with the role maintain or admin there, or of a service",
    Caller.OPERATOR: "operator",
}


def calls() -> str:
    """Every call, who may make it, and what it does."""
    rows = ["| call | token | what it does |", "| --- | --- | --- |"]
    rows += [
        f"| `{route.method} {PREFIX}{route.template}` | {_TOKENS[route.caller]} | {route.summary} |"
        for route in sorted(_routes(), key=lambda each: (each.template.split("/")[1] != "repositories", each.template))
    ]
    rows += [
        f"| `GET {DOCUMENT}` | none needed | Describes these calls for programs, as OpenAPI 3.1. |",
        "| `GET /queue/status` | none needed | Says how busy IMQ is. |",
    ]
    return "\n".join(rows) + "\n"


def openapi() -> str:
    """The file with the description."""
    return json.dumps(document(_routes()), indent=2, ensure_ascii=False) + "\n"


def _routes() -> Sequence[Route]:
    # What they are is known without an engine; only answering takes one.
    return described_routes(cast(Engine, None), cast(Access, None))
