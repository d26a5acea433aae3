"""Read the bodies of requests, bounded in size and time, and forms that come from no other site."""

import asyncio
from datetime import timedelta
from urllib.parse import parse_qsl, urlsplit

from aiohttp import web
from multidict import MultiDict

MAX_TIME = timedelta(seconds=30)
"""How long a sender may take: GitHub Enterprise Server itself gives up after as long."""


class Refused(Exception):
    """An HTTP status and a sentence for the sender of a refused request."""

    def __init__(self, status: int, sentence: str) -> None:
        super().__init__(sentence)
        self.status = status
        self.sentence = sentence


async def read_body(request: web.Request, name: str, limit: int, timeout: timedelta = MAX_TIME) -> bytes:
    """Read a body of at most `limit` bytes, not compressed; Refused (400, 408, 413, 415) has its `name`."""
    if "Content-Encoding" in request.headers:
        raise Refused(415, f"the {name} must not have a Content-Encoding")
    body = bytearray()
    try:
        if (request.content_length or 0) > limit:
            raise _too_large(name, limit)
        async with asyncio.timeout(timeout.total_seconds()):
            async for chunk in request.content.iter_any():
                body += chunk
                if len(body) > limit:
                    raise _too_large(name, limit)
        return bytes(body)
    except TimeoutError:
        raise Refused(408, f"the {name} did not arrive in time") from None
    except (OSError, web.RequestPayloadError, RuntimeError) as error:
        if isinstance(error, RuntimeError) and not (request.transport is None or request.transport.is_closing()):
            raise  # So aiohttp ends a read of a connection that was lost before it, as in a flood.
        raise Refused(400, f"the {name} was cut off") from None
    finally:
        # The request keeps an error of its body, whose traceback keeps this frame, until garbage is collected.
        body.clear()


def _too_large(name: str, limit: int) -> Refused:
    return Refused(413, f"the {name} is larger than {_size(limit)}")


def _size(size: int) -> str:
    return f"{size // 1024**2} MiB" if size >= 1024**2 else f"{size // 1024} KiB"


MOST_BYTES = 64 * 1024
_MOST_FIELDS = 1000
_TYPE = "application/x-www-form-urlencoded"
_FORM: web.RequestKey[MultiDict[str]] = web.RequestKey("form", MultiDict)


async def read_form(request: web.Request, own_origin: str | None = None) -> MultiDict[str]:
    """Read the form, if `check_header` lets it; the request keeps it for others. Raises Refused also with 400, 408."""
    kept: MultiDict[str] | None = request.get(_FORM)
    if kept is not None:
        return kept
    check_header(request, own_origin)
    body = await read_body(request, "form", MOST_BYTES)
    if body.count(b"&") >= _MOST_FIELDS:
        raise Refused(413, "this form has too many fields")
    try:
        fields = parse_qsl(body.decode(), keep_blank_values=True, errors="strict")
    except ValueError:
        raise Refused(400, "the form is not UTF-8") from None
    request[_FORM] = form = MultiDict(fields)
    return form


def check_header(request: web.Request, own_origin: str | None) -> None:
    """Refuse what is no form of IMQ's own pages, before it is read. Raises Refused (403, 411, 413, 415).

    `own_origin` is the public address, which a reverse proxy may hide from this process. A page of another site cannot
    change Fetch Metadata (`Sec-Fetch-Site`, W3C) nor `Origin` (RFC 6454).
    """
    if request.content_type != _TYPE or (request.charset or "utf-8").casefold() != "utf-8":
        raise Refused(415, f"send a form as {_TYPE}, in UTF-8")
    if request.content_length is None:
        raise Refused(411, "send the length of the form")
    if request.content_length > MOST_BYTES:
        raise Refused(413, "this form is too large")
    if _is_foreign(request, own_origin):
        raise Refused(403, "This form was sent by another site")


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
