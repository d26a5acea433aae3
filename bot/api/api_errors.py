"""Errors of the API: one sentence for the caller, in one form for every route."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from queue_engine.core.concurrency.slots import SlotsBusy
from queue_engine.core.database.outage import fault_of
from queue_engine.core.jobs.idempotency import KeyLost
from queue_engine.domain.errors import (
    Busy,
    Forbidden,
    GitHubError,
    NotFound,
    RateLimitError,
    ReadLagError,
    RequestOrderError,
    StaleRead,
    Unauthorized,
    Unavailable,
)

_log = structlog.get_logger("imq.api")

RETRY_AFTER_OUTAGE = timedelta(seconds=30)
"""When a caller may retry after a failure of the database or GitHub, or while a queue is full."""


_RETRY_AFTER_LAG = timedelta(seconds=2)
"""When a caller may retry after a replica of GitHub returned an older state."""

_READ_LAGS = "GitHub still shows an older state; try again"


class ApiError(Exception):
    """An error response: the HTTP status, the sentence, and further fields."""

    def __init__(
        self,
        status: int,
        sentence: str,
        /,
        *,
        retry_after: timedelta | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """`more` are further fields of the answer, such as the `reason` code of a rejected pull request."""
        super().__init__(sentence)
        self.status = status
        again = status in _TRANSIENT or retry_after is not None
        self.body = {"error": sentence, **_general(status, sentence, again=again), **more}
        self.headers = dict(headers or {})
        self.retry_after = retry_after
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after.total_seconds())))

    def answer(self) -> web.Response:
        return web.json_response(self.body, status=self.status, headers=self.headers)


_TRANSIENT = frozenset({408, 429, 500, 503})

_STEPS = {
    401: "Send a valid token, made with `imq token create`.",
    403: "Ask a maintainer or IMQ's operator for a token that may do this.",
    404: "Check the address, and whether the token may see it.",
    409: "Read the present state, then decide.",
    502: "Ask IMQ's operator to look at IMQ's log.",
}
"""The next step after a refusal, by its status."""

_TRY_AGAIN = "Send the same call again with the same Idempotency-Key, after the seconds of Retry-After."
_CORRECT = "Correct the call, and send it with a new Idempotency-Key."
_READS = {_TRY_AGAIN: "Send the same call again, after the seconds of Retry-After.", _CORRECT: "Correct the call."}
"""What these steps are for a call that changes nothing: it has no key."""


def _general(status: int, sentence: str, *, again: bool) -> dict[str, Any]:
    """Return the fields of every answer, for an error that says nothing about a pull request.

    `again`: the same call may succeed later.
    """
    actor = "operator" if status == 502 else "imq" if again else "caller"
    step = _TRY_AGAIN if again else _STEPS.get(status, _CORRECT)
    return {
        "state": None,
        "outcome": None,
        "whose_move": actor,
        "reason": None,
        "sentence": sentence,
        "detail": None,
        "retry_safe": again,
        "failing": [],
        "next": {"sentence": step, "call": None},
    }


@web.middleware
async def errors_as_json(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Answer errors as JSON; unexpected exceptions are left to the application."""
    try:
        return await handler(request)
    except Exception as error:
        if (known := known_error(request, error)) is None:
            raise
        if request.method in {"GET", "HEAD"}:
            step = known.body["next"]
            known.body["next"] = step | {"sentence": _READS.get(step["sentence"], step["sentence"])}
        return known.answer()


def answering_as_json(handler: Handler) -> Handler:
    """Wrap one handler so that its errors are JSON, never a page or a redirect to the login."""

    async def handle(request: web.Request) -> web.StreamResponse:
        return await errors_as_json(request, handler)

    return handle


def known_error(request: web.Request, error: Exception) -> ApiError | None:
    """Convert an exception of a call to an error response; None for an unexpected one."""
    match error:
        case ApiError():
            return error
        case web.HTTPNotFound():
            return ApiError(404, "no such address")
        case web.HTTPMethodNotAllowed():
            allowed = ", ".join(sorted(error.allowed_methods))
            return ApiError(405, f"this address accepts only {allowed}", headers={"Allow": allowed})
        case KeyLost():
            # The work was rolled back as well: this call outlived its lease, and another call has the key.
            return ApiError(409, "another call has taken over this request", retry_after=timedelta(0))
        case SlotsBusy():
            return ApiError(429, "queue full", retry_after=RETRY_AFTER_OUTAGE)
        case RequestOrderError():
            return ApiError(
                503, "IMQ first answers an earlier request for this base branch", retry_after=error.retry_after
            )
        case GitHubError():
            return _from_github_error(error)
    if fault_of(error) is None:
        return None
    _log.exception("call_failed", method=request.method, path=request.path)
    return ApiError(503, "the database is unavailable; try again later", retry_after=RETRY_AFTER_OUTAGE)


def known_refusal(error: Exception) -> ApiError | None:
    """Convert GitHub's refusal of a pull request or a permission, which no other try changes; None for others."""
    return _from_github_error(error) if isinstance(error, NotFound | Forbidden | Unauthorized) else None


def _from_github_error(error: GitHubError) -> ApiError:
    """Convert GitHub's refusal to an error of the API; GitHub's own message stays in the log."""
    _log.warning("github_refused_call", error=f"{type(error).__name__}: {error.message}", status=error.status)
    match error:
        case Busy():
            return ApiError(
                429, "IMQ has too many pending calls to GitHub; try again later", retry_after=error.retry_after
            )
        case ReadLagError():
            return ApiError(503, _READ_LAGS, retry_after=error.retry_after)
        case RateLimitError():
            return ApiError(503, "IMQ has reached GitHub's rate limit; try again later", retry_after=error.retry_after)
        case StaleRead():
            return ApiError(503, _READ_LAGS, retry_after=_RETRY_AFTER_LAG)
        case Unavailable():
            return ApiError(503, "GitHub is failing; try again later", retry_after=RETRY_AFTER_OUTAGE)
        case NotFound():
            return ApiError(404, "GitHub has no such pull request, or IMQ may not see it")
        case Forbidden() | Unauthorized():
            return ApiError(502, "GitHub refused this: check the permissions and the key of IMQ's App")
        case _:
            return ApiError(502, "GitHub refused this call; see IMQ's log")
