"""What the API refuses, and how it says so: one sentence for whoever called, in one form for every route."""

import math
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler

from queue_engine.core.idempotency import KeyLost
from queue_engine.core.outage import fault_of

_log = structlog.get_logger("imq.api")

_OUTAGE = timedelta(seconds=30)
"""When a caller may ask again while the database is away."""


class ApiError(Exception):
    """A refusal: the HTTP status, the sentence, and what the caller's program may want to know beside it."""

    def __init__(
        self,
        status: int,
        sentence: str,
        *,
        retry_after: timedelta | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        """`more` stands beside the sentence in the answer, such as the `reason` code of a refused pull request."""
        super().__init__(sentence)
        self.status = status
        self.body = {"error": sentence, **more}
        self.headers = dict(headers or {})
        if retry_after is not None:
            self.headers["Retry-After"] = str(max(1, math.ceil(retry_after.total_seconds())))

    def answer(self) -> web.Response:
        """As the caller gets it."""
        return web.json_response(self.body, status=self.status, headers=self.headers)


@web.middleware
async def telling_errors(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Every refusal is answered in JSON; errors of our own are left to the application's last resort."""
    try:
        return await handler(request)
    except ApiError as error:
        return error.answer()
    except web.HTTPNotFound:
        return ApiError(404, "there is nothing at this address").answer()
    except web.HTTPMethodNotAllowed as error:
        allowed = ", ".join(sorted(error.allowed_methods))
        return ApiError(405, f"this address takes {allowed} only", headers={"Allow": allowed}).answer()
    except KeyLost:
        # The work was rolled back with it: somebody else has the key, because we took too long.
        return ApiError(409, "the same request has been taken over by another call", retry_after=timedelta(0)).answer()
    except Exception as error:
        if fault_of(error) is None:
            raise
        _log.exception("call_failed", method=request.method, path=request.path)
        return ApiError(503, "the database is not available; try again later", retry_after=_OUTAGE).answer()
