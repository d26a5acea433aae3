"""One request on its way through an endpoint: who calls, what for, and the usual ways to answer."""

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from github_emulator.callers.errors import Refusal, invalid_request, not_found
from github_emulator.callers.limits import Limits
from github_emulator.callers.tokens import Caller, Tokens
from github_emulator.core.git import Signature
from github_emulator.facade.github import GitHub
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.paging import paginate
from github_emulator.state import Actor, App, Installation, PullRequest, Repository

Item = TypeVar("Item")
_REQUIRED: Any = object()
_TYPES = {str: "a string", bool: "a boolean", int: "an integer", list: "an array", dict: "an object"}


@dataclass
class Call:
    """What an endpoint's function is given.

    `params` come from the path and `query` from behind it; `data` is the JSON body. `api_url` is where this API is
    served (for Link headers); `url` is this request's address without the query. `accept` is the media type asked for.
    Within `branches` branches and commits show the state of this answer.
    """

    github: GitHub
    tokens: Tokens
    limits: Limits
    caller: Caller
    access: Access
    params: Mapping[str, str]
    query: Mapping[str, str]
    data: Mapping[str, Any]
    api_url: str
    url: str
    found: Repository | None = field(default=None)
    accept: str = ""
    branches: Callable[[], AbstractContextManager[None]] = nullcontext

    @property
    def repository(self) -> Repository:
        """The repository in the path; the caller may see it."""
        assert self.found is not None, "the route has no repository"
        return self.found

    @property
    def actor(self) -> Actor:
        """The person or app that acts."""
        if self.caller.actor is None:
            raise Refusal(401, "Requires authentication")
        return self.caller.actor

    @property
    def person(self) -> Actor:
        """The person whose token it is. Raises 401 without one, and 403 for an App's installation."""
        if self.caller.installation is not None:
            raise Refusal(403, "Resource not accessible by integration")
        return self.actor

    @property
    def signature(self) -> Signature:
        """Whom a commit names that names no author."""
        return Signature(self.actor.user.login, self.actor.user.email, self.github.clock.now())

    @property
    def app(self) -> App:
        """The app that calls, by JWT or by an installation's token. Raises 403 for people."""
        app = self.caller.app
        if app is None:
            raise Refusal(403, "You must authenticate via a GitHub App.")
        return app

    @property
    def installation(self) -> Installation:
        """The installation whose token this is."""
        assert self.caller.installation is not None, "the route admits installations only"
        return self.caller.installation

    @property
    def pull(self) -> PullRequest:
        """The pull request (also as an issue) that the path's number names. Raises 404."""
        pull = self.repository.pulls.get(self.number("number"))
        if pull is None:
            raise not_found()
        return pull

    def number(self, name: str) -> int:
        """A whole number in the path. Raises 404 when it is none."""
        text = self.params[name]
        if not text.isascii() or not text.isdigit():
            raise not_found()
        return int(text)

    def take(self, name: str, kind: type[Item], default: Any = _REQUIRED, *, null: bool = False) -> Item:
        """A field of the body, of that JSON type. Raises 422 when it is missing or of another type."""
        if name not in self.data:
            if default is _REQUIRED:
                raise invalid_request(f'"{name}" wasn\'t supplied.')
            return cast(Item, default)
        value = self.data[name]
        if value is None and (null or default is None):
            return cast(Item, None)
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise invalid_request(f"For 'properties/{name}', {_shown(value)} is not {_TYPES[kind]}.")
        return value

    def one_of(self, name: str, choices: Sequence[str], default: str) -> str:
        """A field of the body that is one of a few words. Raises 422 for any other."""
        value: str = self.take(name, str, default)
        if value not in choices:
            raise invalid_request(f"For 'properties/{name}', {value} is not a member of {list(choices)}.")
        return value

    def page(self, items: Sequence[Item], show: Callable[[Item], Any]) -> Answer:
        """The asked page of a list, with Link headers."""
        chosen, headers = paginate(items, self.query, self.url)
        return Answer([show(item) for item in chosen], headers=headers)

    def counted_page(self, name: str, items: Sequence[Item], show: Callable[[Item], Any]) -> Answer:
        """The asked page of a list that comes with its total, as `{"total_count", name}`."""
        chosen, headers = paginate(items, self.query, self.url)
        return Answer({"total_count": len(items), name: [show(item) for item in chosen]}, headers=headers)


def parse_body(raw: bytes, *, bare: str | None = None) -> dict[str, Any]:
    """The JSON object that was sent; nothing counts as an empty one. Raises 400 for anything else.

    With `bare` a list is taken for that field: labels may be sent so ("Add labels to an issue").
    """
    if not raw.strip():
        return {}
    try:
        data = json.loads(raw)
    except ValueError as error:
        raise Refusal(400, "Problems parsing JSON") from error
    if isinstance(data, list) and bare is not None:
        return {bare: data}
    if not isinstance(data, dict):
        raise Refusal(400, "Body should be a JSON object")
    return data


def _shown(value: object) -> str:
    return "nil" if value is None else str(value)
