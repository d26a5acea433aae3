"""Cookies that scripts cannot read, that other sites' forms do not send, and that no other host can set.

Over https their names begin with `__Host-`: browsers then refuse them from subdomains, over http, and with a domain
(RFC 6265bis; MDN, "Set-Cookie").
"""

from collections.abc import Callable
from datetime import timedelta

from aiohttp import web

_CHANGES: web.RequestKey[list[Callable[[web.StreamResponse], None]]] = web.RequestKey("cookie_changes", list)


class Cookies:
    """Reads cookies of a request, and notes which its response sets."""

    def __init__(self, *, secure: bool) -> None:
        """`secure` cookies go over https only."""
        self._secure = secure

    def get(self, request: web.Request, name: str) -> str:
        """Return what the browser sent; empty without such a cookie."""
        return request.cookies.get(self._name(name), "")

    def set(self, request: web.Request, name: str, value: str, life: timedelta) -> None:
        """Have the response of this request set a cookie."""
        seconds = int(life.total_seconds())
        self._note(
            request,
            lambda response: response.set_cookie(
                self._name(name),
                value,
                max_age=seconds,
                path="/",
                httponly=True,
                samesite="Lax",
                secure=self._secure,
            ),
        )

    def delete(self, request: web.Request, name: str) -> None:
        """Have the browser forget a cookie."""
        self._note(
            request,
            lambda response: response.del_cookie(
                self._name(name), path="/", httponly=True, samesite="Lax", secure=self._secure
            ),
        )

    def _name(self, name: str) -> str:
        return f"__Host-{name}" if self._secure else name

    def _note(self, request: web.Request, change: Callable[[web.StreamResponse], None]) -> None:
        request.setdefault(_CHANGES, []).append(change)


def write_cookies(request: web.Request, response: web.StreamResponse) -> None:
    """Set the noted cookies on a response, before its headers are sent.

    aiohttp has added the response's own cookies to its headers by then, so these are added one by one.
    """
    noted = web.Response()
    for change in request.get(_CHANGES, ()):
        change(noted)
    for cookie in noted.cookies.values():
        response.headers.add("Set-Cookie", cookie.OutputString())
