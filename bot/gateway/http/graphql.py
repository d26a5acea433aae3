"""Call GitHub's GraphQL API: its address, and refusals inside its answers of status 200."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field
from yarl import URL

from bot.gateway.http.client import GRAPHQL, Call
from bot.gateway.http.errors import disorder_of
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.errors import Forbidden, GitHubError, NotFound, Refused, Unavailable

_LIMITS = frozenset({"RATE_LIMIT", "RATE_LIMITED"})
"""Both were seen (githubkit #271)."""
_SCHEMA_ERRORS = frozenset({"undefinedField", "argumentNotAccepted", "undefinedType", "variableMismatch"})
_LIMIT_WORDS = "rate limit"


class Unsupported(Exception):
    """This GitHub has no GraphQL API, or its schema lacks a requested field."""


class ErrorAnswer(ReadModel):
    """An error in an answer. `path` names the field that is null because of it."""

    type: str = ""
    message: str = ""
    path: list[str | int] | None = None
    extensions: dict[str, Any] | None = None


class QueryAnswer(ReadModel):
    """The body of an answer."""

    data: dict[str, Any] | None = None
    errors: list[ErrorAnswer] = Field(default_factory=list)


def endpoint(api_url: str) -> str:
    """Return the GraphQL URL of a REST API: Enterprise Server has them at `/api/v3` and `/api/graphql`."""
    url = URL(api_url)
    path = url.path.rstrip("/")
    return str(url.with_path(path.removesuffix("/v3") + "/graphql"))


def query(api_url: str, text: str, variables: Mapping[str, Any]) -> Call:
    """Return the request of a query."""
    return Call("POST", GRAPHQL, body={"query": text, "variables": variables}, link=endpoint(api_url))


def limit_of(data: Any) -> str | None:
    """Return GitHub's message if an answer of status 200 says that a limit is reached; None otherwise."""
    errors = data.get("errors") if isinstance(data, dict) else None
    for error in errors if isinstance(errors, list) else ():
        message = str(error.get("message", "")) if isinstance(error, dict) else ""
        if isinstance(error, dict) and (error.get("type") in _LIMITS or _LIMIT_WORDS in message.lower()):
            return message or "API rate limit exceeded"
    return None


def check(answer: QueryAnswer, needed: Iterable[tuple[str, ...]]) -> None:
    """Raise the error of a `needed` field, or of the whole query; other fields may be null.

    Raises Unsupported where the schema lacks a requested field.
    """
    fields = set(needed)
    for error in answer.errors:
        if (error.extensions or {}).get("code") in _SCHEMA_ERRORS:
            raise Unsupported(error.message)
        if not error.path or answer.data is None or tuple(map(str, error.path)) in fields:
            raise _to_error(error)
    if answer.data is None:
        raise Unavailable("the answer is not GitHub's: it holds no data")


def _to_error(error: ErrorAnswer) -> GitHubError:
    """Convert an error; unknown types are transient: timeouts come as "Something went wrong"."""
    if (disorder := disorder_of(error.message)) is not None:
        return Refused(error.message, status=403, disorder=disorder)
    if error.type == "NOT_FOUND":
        return NotFound(error.message, status=404)
    if error.type in {"FORBIDDEN", "INSUFFICIENT_SCOPES"}:
        return Forbidden(error.message, status=403)
    return Unavailable(error.message or "GitHub's GraphQL API refuses without a message", status=200)
