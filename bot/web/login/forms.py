"""Refuse forms that IMQ's own pages did not send."""

import asyncio
import hmac
from collections.abc import Mapping
from urllib.parse import urlsplit

from aiohttp import web

from bot.api.auth import READING
from bot.api.errors import ApiError
from bot.http.body import MAX_TIME
from bot.web.login.viewer import viewer

FIELD = "csrf"
MOST_BYTES = 64 * 1024
"""Of a form."""

_FORM = "application/x-www-form-urlencoded"
_STALE = "This form is not from your present session. Go back, reload the page and try again"


async def refuse_forged(request: web.Request, own_origin: str | None = None) -> None:
    """Return for a request that reads, and for a form of this session. Raises ApiError (400, 403, 408, 411, 413, 415).

    `own_origin` is the public address, which a reverse proxy may hide from this process.

    Three things are held, each of which suffices in a present browser: the session's secret field, Fetch Metadata
    (`Sec-Fetch-Site`, W3C) and `Origin` (RFC 6454). A page of another site knows none of the first, and cannot change
    the other two. Without a session IMQ does not read the form.
    """
    if request.method in READING:
        return
    if request.content_type != _FORM or (request.charset or "utf-8").casefold() != "utf-8":
        raise ApiError(415, f"send a form as {_FORM}, in UTF-8")
    if request.content_length is None:
        raise ApiError(411, "send the length of the form")
    if request.content_length > MOST_BYTES:
        raise ApiError(413, "this form is too large")
    if _is_foreign(request, own_origin):
        raise ApiError(403, "This form was sent by another site")
    who = viewer(request)
    given = (await _fields(request)).get(FIELD, "") if who.csrf else ""
    if not who.csrf or not isinstance(given, str) or not hmac.compare_digest(given.encode(), who.csrf.encode()):
        raise ApiError(403, _STALE)


async def _fields(request: web.Request) -> Mapping[str, object]:
    """Read the form within the time that every body has; the request keeps it for the page. Raises ApiError."""
    try:
        async with asyncio.timeout(MAX_TIME.total_seconds()):
            return await request.post()
    except TimeoutError:
        raise ApiError(408, "the form did not arrive in time") from None
    except ValueError:
        raise ApiError(400, "the form is not UTF-8, or has too many fields") from None


def _is_foreign(request: web.Request, own_origin: str | None) -> bool:
    if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
        return True
    origin = request.headers.get("Origin")
    if origin is None or origin == own_origin:
        return False
    try:
        # A reverse proxy may change the scheme.
        return urlsplit(origin).netloc.casefold() != request.host.casefold()
    except ValueError:
        return True
