"""Routes of the API as data: input, output, required access. Router and document read them."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from aiohttp.typedefs import Handler
from pydantic import BaseModel

from bot.api.payload import Payload

Answer = type[BaseModel] | None
"""The model of an answer's body; None where there is no body."""


class Caller(StrEnum):
    """Whom a route lets in."""

    ANYONE = "anyone"
    """Without a token."""
    PERSON = "person"
    """A token that writes, of a person who may queue there, or of a service whose scope covers the repository."""
    READER = "reader"
    """An operator's token, a person's who may read the repository, or one whose scope covers it."""
    STEERER = "steerer"
    """A token that controls queues, of a person with the role maintain or admin there, or of a service as above."""
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Route:
    """One call. `path` is aiohttp's, with a pattern for each variable."""

    method: str
    path: str
    handler: Handler
    name: str
    """Its operation id: a verb and a noun, which stays."""
    summary: str
    caller: Caller
    answers: Mapping[int, Answer]
    """By status; what holds for all calls (400, 401, 403, …) is added by the document."""
    body: type[Payload] | None = None
    query: type[Payload] | None = None
    refusals: Sequence[int] = ()
    """Statuses of its own refusals, beside those that every call may meet."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """What each variable of the path is."""

    @property
    def template(self) -> str:
        """The path as OpenAPI writes it: variables without their patterns."""
        return "".join(f"{{{part.name}}}" if isinstance(part, Variable) else part for part in parts(self.path))


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a path, and the pattern that its text has to match."""

    name: str
    pattern: str


_NAME = re.compile(r"\{([a-z_]+)(?::)?")


def parts(path: str) -> Sequence[str | Variable]:
    """The path taken apart; a pattern may hold braces of its own, as `{1,100}`."""
    found: list[str | Variable] = []
    rest = path
    while (begin := _NAME.search(rest)) is not None:
        end, depth = begin.end(), 1
        while depth:
            depth += {"{": 1, "}": -1}.get(rest[end], 0)
            end += 1
        found += [rest[: begin.start()], Variable(begin[1], rest[begin.end() : end - 1] or "[^/]+")]
        rest = rest[end:]
    return [part for part in (*found, rest) if part]


class Problem(BaseModel):
    """A refusal: one sentence for people, and for a pull request its reason code."""

    error: str
    reason: str | None = None
    detail: str | None = None


def schema_of(models: Mapping[str, type[BaseModel]], mode: Any, place: str) -> Mapping[str, Any]:
    """JSON Schemas of these models by name, each with what it refers to under `place`."""
    schemas: dict[str, Any] = {}
    for name, model in models.items():
        made = model.model_json_schema(mode=mode, ref_template=f"{place}/{{model}}")
        schemas |= made.pop("$defs", {})
        schemas[name] = made
    return schemas
