"""Refusals as GitHub words them: a status, a sentence, and where its documentation explains it."""

from collections.abc import Mapping, Sequence
from typing import Any

from github_emulator.core.errors import ApiError

DOCS = "https://docs.github.com/rest"


class Refusal(ApiError):
    """A refusal of the HTTP face itself: credentials, limits, malformed requests; with headers of its own.

    `docs` is the page to name instead of the endpoint's own.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        errors: Sequence[Mapping[str, Any]] = (),
        docs: str | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message, errors=errors)
        self.status = status
        self.docs = docs
        self.headers = dict(headers or {})


class Moved(Refusal):
    """The repository has another name now; `url` is the same place below its id.

    Reads are answered 301, writes 307, both in these words (18F/charlie #85, matrix-org/go-neb #141).
    """

    def __init__(self, url: str, *, read: bool) -> None:
        super().__init__(
            301 if read else 307,
            "Moved Permanently",
            docs=f"{DOCS}/guides/best-practices-for-using-the-rest-api#follow-redirects",
            headers={"Location": url},
        )
        self.url = url


class DropConnection(Exception):
    """Raised by a hook: the connection is aborted without an answer."""


def body_of(error: ApiError, docs: str) -> dict[str, Any]:
    """`{"message", "errors"?, "documentation_url", "status"}`; `docs` is the endpoint's page below DOCS."""
    answer: dict[str, Any] = {"message": error.message}
    if error.errors:
        answer["errors"] = list(error.errors)
    if isinstance(error, Moved):
        answer["url"] = error.url
    own = error.docs if isinstance(error, Refusal) else None
    answer["documentation_url"] = own or f"{DOCS}/{docs}".rstrip("/")
    answer["status"] = str(error.status)
    return answer


def not_found() -> Refusal:
    """GitHub's answer for what does not exist and for what the caller may not know to exist."""
    return Refusal(404, "Not Found")


def bad_credentials() -> Refusal:
    """An unknown, revoked or expired token."""
    return Refusal(401, "Bad credentials", docs=DOCS)


def not_accessible(accepted: str) -> Refusal:
    """A GitHub App whose installation lacks a permission; `accepted` names what would do."""
    headers = {"X-Accepted-GitHub-Permissions": accepted}
    return Refusal(403, "Resource not accessible by integration", headers=headers)


def invalid(resource: str, field: str, code: str = "invalid", value: object = None) -> Refusal:
    """422 as GitHub's validator gives it for one field of one resource."""
    problem: dict[str, Any] = {"resource": resource, "field": field, "code": code}
    return Refusal(422, "Validation Failed", errors=[problem if value is None else {"value": value, **problem}])


def invalid_request(sentence: str) -> Refusal:
    """422 as GitHub's schema check gives it, before the request reaches the resource."""
    return Refusal(422, f"Invalid request.\n\n{sentence}")
