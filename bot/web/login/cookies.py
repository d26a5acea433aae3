"""Cookies that scripts cannot read, that other sites' forms do not send, and no other host can set; signed ones.

Over https their names begin with `__Host-`: browsers then refuse them from subdomains, over http, and with a domain
(RFC 6265bis; MDN, "Set-Cookie").
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from datetime import datetime, timedelta
from typing import Any

from aiohttp import web

from queue_engine.core.timing.clock import Clock

_SIZE = hashlib.sha256().digest_size


class Signer:
    """Signs values for one browser. A value is bound to its name, so that none serves as another."""

    def __init__(self, keys: Sequence[bytes]) -> None:
        """`keys` are of 32 bytes, the present one first."""
        self._keys = tuple(keys)

    def sign(self, name: str, text: str) -> str:
        """Return the text with its signature, in characters that a cookie may have."""
        content = text.encode()
        return _encode(_mac(self._keys[0], name, content) + content)

    def verify(self, name: str, value: str) -> str | None:
        """Return the text; None if the value was not signed under this name."""
        try:
            signed = base64.b64decode(value.encode() + b"=" * (-len(value) % 4), altchars=b"-_", validate=True)
            text = signed[_SIZE:].decode()
        except (binascii.Error, ValueError):
            return None
        given = signed[:_SIZE]
        if _encode(signed) != value or not any(
            hmac.compare_digest(given, _mac(key, name, signed[_SIZE:])) for key in self._keys
        ):
            return None
        return text

    def sign_content(self, name: str, content: Any, now: datetime, life: timedelta) -> str:
        """Sign JSON content that is valid for `life`."""
        return self.sign(name, json.dumps([(now + life).timestamp(), content]))

    def verify_content(self, name: str, value: str, now: datetime) -> Any:
        """Return such content; None if it is not signed, or too old."""
        text = self.verify(name, value)
        if text is None:
            return None
        until, content = json.loads(text)
        return content if now.timestamp() < until else None

    def derive(self, name: str, text: str) -> str:
        """Return a secret that belongs to a text. It changes with the key."""
        return _encode(_mac(self._keys[0], name, text.encode()))


def _mac(key: bytes, name: str, content: bytes) -> bytes:
    return hmac.new(key, name.encode() + b"\x00" + content, hashlib.sha256).digest()


def _encode(content: bytes) -> str:
    return base64.urlsafe_b64encode(content).decode().rstrip("=")


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


_LONGEST = 3800
"""Characters of a cookie's value: browsers refuse a cookie of more than 4096 (RFC 6265, section 6.1)."""


class SignedCookie:
    """JSON content that a browser keeps under one name for a time; the signature is one of the name, too."""

    def __init__(self, name: str, life: timedelta, clock: Clock, signer: Signer, cookies: Cookies) -> None:
        self._name, self._life = name, life
        self._clock, self._signer, self._cookies = clock, signer, cookies

    def get(self, request: web.Request) -> Any:
        """Return the content; None if it is missing, too old or not IMQ's."""
        return self._signer.verify_content(self._name, self._cookies.get(request, self._name), self._clock.now())

    def put(self, request: web.Request, content: Any) -> bool:
        """Have the browser keep the content; False if it is too long."""
        value = self._signer.sign_content(self._name, content, self._clock.now(), self._life)
        if len(value) > _LONGEST:
            return False
        self._cookies.set(request, self._name, value, self._life)
        return True

    def delete(self, request: web.Request) -> None:
        """Have the browser forget it."""
        self._cookies.delete(request, self._name)


class Flash:
    """A message for the next page that a browser opens, such as the result of a form."""

    def __init__(self, clock: Clock, signer: Signer, cookies: Cookies) -> None:
        self._cookie = SignedCookie("imq_message", timedelta(minutes=5), clock, signer, cookies)

    def put(self, request: web.Request, message: str) -> None:
        """Have the next page show a message."""
        self._cookie.put(request, message[:500])

    def take(self, request: web.Request) -> str:
        """Return the message and forget it; empty if there is none."""
        message = self._cookie.get(request)
        if message is not None:
            self._cookie.delete(request)
        return str(message or "")
