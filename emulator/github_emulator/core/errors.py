"""What GitHub refuses, as errors that carry the status and message of its REST answer."""

from collections.abc import Mapping, Sequence
from typing import Any


class ApiError(Exception):
    """A refusal: `status` and `message` are those of the REST answer, `errors` its optional list of details."""

    status = 500

    def __init__(self, message: str, *, errors: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.message = message
        self.errors = tuple(errors)


class Forbidden(ApiError):
    """403: the actor may not do this."""

    status = 403

    def __init__(self, message: str = "Resource not accessible by integration") -> None:
        super().__init__(message)


class NotFound(ApiError):
    """404: it does not exist, or the actor may not know that it does."""

    status = 404

    def __init__(self, message: str = "Not Found") -> None:
        super().__init__(message)


class NotMergeable(ApiError):
    """405: the merge is refused; the message says by what."""

    status = 405


class Conflict(ApiError):
    """409: the head moved, or a merge of branches conflicts."""

    status = 409


class Invalid(ApiError):
    """422: the request makes no sense in this state."""

    status = 422
