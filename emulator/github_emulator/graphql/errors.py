"""Refusals of the GraphQL API: an answer of status 200 with `errors`, each with GitHub's own `type`."""

import re
from typing import Any

from graphql import GraphQLError

from github_emulator.core.errors import ApiError, Forbidden, NotFound

_UNKNOWN_FIELD = re.compile(r"Cannot query field '(\w+)' on type '(\w+)'")
_UNKNOWN_ARGUMENT = re.compile(r"Unknown argument '(\w+)' on field '\w+\.(\w+)'")
_NOT_ACCESSIBLE = "Resource not accessible by integration"


class Refused(Exception):
    """One field is refused: it is null, and the others are answered."""

    def __init__(self, kind: str, message: str) -> None:
        super().__init__(message)
        self.kind = kind


def not_found(what: str) -> Refused:
    """What does not exist, or the caller may not know of."""
    return Refused("NOT_FOUND", f"Could not resolve to a {what}.")


def not_accessible() -> Refused:
    """An App whose token lacks a permission (gh-aw #35726 shows type and words)."""
    return Refused("FORBIDDEN", _NOT_ACCESSIBLE)


def of_rest(error: ApiError) -> Refused:
    """A refusal of the emulator's verbs, by the type that stands for its status."""
    if isinstance(error, NotFound):
        return Refused("NOT_FOUND", error.message)
    return Refused("FORBIDDEN" if isinstance(error, Forbidden) else "UNPROCESSABLE", error.message)


def shown(error: GraphQLError) -> dict[str, Any]:
    """An error met while fields were resolved, in GitHub's shape. Raises what was no refusal."""
    cause = error.original_error
    answer: dict[str, Any] = {"path": error.path, "message": error.message}
    if isinstance(cause, Refused):
        answer = {"type": cause.kind, **answer}
        if cause.kind == "FORBIDDEN":
            answer["extensions"] = {"saml_failure": False}
    elif cause is not None and not isinstance(cause, GraphQLError):
        raise cause
    return answer | _places(error)


def malformed(error: GraphQLError) -> dict[str, Any]:
    """A query that does not fit the schema, or cannot be read."""
    if unknown := _UNKNOWN_FIELD.match(error.message):
        message, code = f"Field '{unknown[1]}' doesn't exist on type '{unknown[2]}'", "undefinedField"
    elif unknown := _UNKNOWN_ARGUMENT.match(error.message):
        message, code = f"Field '{unknown[2]}' doesn't accept argument '{unknown[1]}'", "argumentNotAccepted"
    else:
        return {"message": error.message} | _places(error)
    return {"message": message, "extensions": {"code": code}} | _places(error)


def _places(error: GraphQLError) -> dict[str, Any]:
    return {"locations": [{"line": place.line, "column": place.column} for place in error.locations or ()]}
