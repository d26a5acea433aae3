"""Routes of the API as data: input, output, required access. Router and document read them."""

import re
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import partial
from inspect import isfunction
from typing import Any, ClassVar, TypeVar

from aiohttp import web
from aiohttp.typedefs import Handler

from bot.api.api_errors import ApiError
from bot.api.auth import operator
from bot.api.payload import EmptyBody, Payload, payload
from bot.api.permissions import Access
from bot.api.views import StateAnswer
from queue_engine.effects.context import Engine

Answer = type[Any] | None
"""The model, or the read model of the engine, of an answer's body; None for an answer without body."""


class Caller(StrEnum):
    """Callers for whom a route is."""

    ANYONE = "anyone"
    """Without a token."""
    LOGIN = "login"
    """A token that a login made."""
    PERSON = "person"
    """A token that writes, of a person who may queue there, or of a service whose scope covers the repository."""
    READER = "reader"
    """An operator's token, a person's who may read the repository, or one whose scope covers it."""
    MAINTAINER = "maintainer"
    """A token that controls queues, of a person with the role maintain or admin there, or of a service as above."""
    OPERATOR = "operator"


@dataclass(frozen=True, slots=True)
class Route:
    """A route. `path` is aiohttp's, with a pattern for each variable."""

    method: str
    path: str
    handler: Handler
    name: str
    """The operation id, which does not change."""
    summary: str
    caller: Caller
    answers: Mapping[int, Answer]
    """By status; the OpenAPI document adds those of all calls (400, 401, 403, …)."""
    body: type[Payload] | None = None
    query: type[Payload] | None = None
    refusals: Sequence[int] = ()
    """Statuses of further errors, beside those of all calls."""
    variables: Mapping[str, str] = field(default_factory=dict)
    """The description of each variable in the path."""
    media_type: str = "application/json"
    """The media type of the answers, but for errors."""

    @property
    def template(self) -> str:
        """Return the path as OpenAPI writes it: variables without patterns."""
        return "".join(f"{{{part.name}}}" if isinstance(part, Variable) else part for part in parts(self.path))


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of a path, and the pattern that it must match."""

    name: str
    pattern: str


_NAME = re.compile(r"\{([a-z_]+)(?::)?")
_SENTENCE = re.compile(r"[^\n]+?\.(?=\s|$)")


def parts(path: str) -> Sequence[str | Variable]:
    """Split a path into text and variables; a pattern may contain braces, as `{1,100}`."""
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


class Problem(StateAnswer):
    """An error: one sentence, and whose move it is. For a rejected pull request `reason` is its reason code.

    `whose_move` may also be `caller`: who made the call has to change it.
    """

    error: str


REPOSITORY = "/repositories/{owner:[A-Za-z0-9_.-]{1,100}}/{repo:[A-Za-z0-9_.-]{1,100}}"
PULL = f"{REPOSITORY}/pulls/{{number:[1-9][0-9]{{0,8}}}}"
# The router matches the encoded path, in which a byte may take three characters.
BRANCH = f"{REPOSITORY}/branches/{{branch:[^/]{{1,765}}}}"

PROCESS_ID = "[0-9a-f]{32}"

VARIABLES: Mapping[str, str] = {
    "owner": "The owner of the repository.",
    "repo": "The name of the repository.",
    "number": "The number of the pull request.",
    "process_id": "The id of the process, from the answer that began it.",
    "branch": "The base branch; a slash in its name is written `%2F`.",
}

H = TypeVar("H", bound=Callable[..., Awaitable[web.StreamResponse]])

_NOTED: defaultdict[Callable[..., Any], list[Any]] = defaultdict(list)


def noted(notes: Iterable[Any]) -> Callable[[H], H]:
    """Return what notes at a method of `Handlers` what it answers."""

    def note(handler: H) -> H:
        _NOTED[handler] += notes
        return handler

    return note


class Handlers:
    """Handlers of requests: methods at which is noted what they answer."""

    _notes: ClassVar[Mapping[str, Sequence[Any]]] = {}
    """By the name of the method, in the order of the methods."""

    def __init_subclass__(cls) -> None:
        """Collect the notes."""
        every = vars(cls).items()
        cls._notes = {name: _NOTED.pop(each) for name, each in every if isfunction(each) and each in _NOTED}


def route(method: str, path: str, **more: Any) -> Callable[[H], H]:
    """Make a method of `Routes` the handler of a route; `more` are the other fields of `Route`.

    The method's name is the operation id, and the first sentence of its docstring the summary.
    """
    return noted([partial(Route, method, path, **{"variables": VARIABLES} | more)])


read = partial(route, "GET", caller=Caller.READER)
"""A route that shows something of a repository."""


class Routes(Handlers):
    """Routes of one subject; the handler of each is a method that `route` describes."""

    def __init__(self, engine: Engine, access: Access) -> None:
        self._engine = engine
        self._access = access

    def routes(self) -> Sequence[Route]:
        """List the routes. Each handles only calls that its declaration admits."""
        handlers = [(name, getattr(self, name), create) for name, notes in self._notes.items() for create in notes]
        made = [create(each, name=name, summary=_summary(each)) for name, each, create in handlers]
        return [replace(each, handler=partial(_handle, each)) for each in made]


def _summary(handler: Handler) -> str:
    """Return the first sentence of the docstring."""
    found = _SENTENCE.match(handler.__doc__ or "")
    assert found is not None, "each handler has a docstring"
    return found[0]


async def _handle(route: Route, request: web.Request) -> web.StreamResponse:
    """Handle a call of a route. Raises ApiError 403 if it is for operators, and 400 for a body where it takes none."""
    if route.caller is Caller.OPERATOR:
        operator(request)
    if route.body is EmptyBody:
        payload(request, EmptyBody)
    return await route.handler(request)


_BRANCH = re.compile(r"[^\x00-\x20\x7f~^:?*\[\\]{1,255}")


def number_of(request: web.Request) -> int:
    """Return the number of the pull request in the path."""
    return int(request.match_info["number"])


def branch_of(request: web.Request) -> str:
    """Return the base branch in the path. Raises ApiError 404 for an invalid branch name."""
    branch = request.match_info["branch"]
    if not _BRANCH.fullmatch(branch) or not branch.isprintable():
        raise no_such_branch()
    return branch


def no_such_branch() -> ApiError:
    """Return the error for a branch without a queue."""
    return ApiError(404, "no such branch, or the branch has no queue")
