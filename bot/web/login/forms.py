"""Refuse forms that IMQ's own pages did not send."""

import hmac

from aiohttp import web

from bot.api.auth import READING
from bot.api.errors import ApiError
from bot.http.body import Refused
from bot.http.form import check_header, read_form
from bot.web.login.viewer import viewer

FIELD = "csrf"

_STALE = "This form is not from your present session. Go back, reload the page and try again"


async def refuse_forged(request: web.Request, own_origin: str | None = None) -> None:
    """Return for a request that reads, and for a form of this session. Raises ApiError (400, 403, 408, 411, 413, 415).

    `own_origin` is the public address. Beside what every form has to pass, the session's secret field is needed, which
    no page of another site knows. Without a session IMQ does not read the form.
    """
    if request.method in READING:
        return
    who = viewer(request)
    try:
        check_header(request, own_origin)
        given = (await read_form(request, own_origin)).get(FIELD, "") if who.csrf else ""
    except Refused as refused:
        raise ApiError(refused.status, refused.sentence) from None
    if not who.csrf or not hmac.compare_digest(given.encode(), who.csrf.encode()):
        raise ApiError(403, _STALE)
