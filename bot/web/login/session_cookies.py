"""Find the person of a request by the session's cookie, and begin and end sessions.

Over https the names of cookies begin with `__Host-`: browsers then refuse them from subdomains, over http, and with a
domain (RFC 6265bis; MDN, "Set-Cookie").
"""

import base64
import binascii
import hashlib
import hmac
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from aiohttp import web

from bot.api.auth import ANONYMOUS as NO_PERSON
from bot.api.auth import act_as
from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import Actor
from queue_engine.store import Store
from queue_engine.store.action_records import ActionKind
from queue_engine.store.sessions import Session
from queue_engine.store.tokens import Token, TokenPolicy

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
    """Set the noted cookies on a response, one by one: aiohttp has added its own to the headers by then."""
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


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page. `token` has the permissions of the person, for `bot.api.permissions.Access`."""

    token: Token
    csrf: str = ""
    """What each form of this session sends as its field `csrf`; empty without a session."""

    @property
    def login(self) -> str | None:
        """The login on GitHub; None for a person who is not logged in."""
        return self.token.grant.login

    @property
    def person_id(self) -> int | None:
        """GitHub's id of the person; None for a person who is not logged in."""
        return self.token.grant.person_id

    @property
    def operator(self) -> bool:
        """Whether this person runs IMQ: IMQ_OPERATORS names them."""
        return self.token.grant.operator

    @property
    def logged_in(self) -> bool:
        """Whether there is a session."""
        return self.person_id is not None


ANONYMOUS = Viewer(NO_PERSON)

_VIEWER: web.RequestKey[Viewer] = web.RequestKey("viewer", Viewer)


def viewer(request: web.Request) -> Viewer:
    """Return who looks at a page."""
    return request[_VIEWER]


def view_as(request: web.Request, who: Viewer) -> None:
    """Record who looks, for the page and for access checks."""
    request[_VIEWER] = who
    act_as(request, who.token)


_COOKIE, _CSRF = "imq_session", "csrf"
_LIFE = timedelta(days=30)

_log = structlog.get_logger("imq.pages")


class Logins:
    """The sessions of people at browsers."""

    def __init__(
        self, store: Store, clock: Clock, signer: Signer, cookies: Cookies, *, is_operator: Callable[[int, str], bool]
    ) -> None:
        """`is_operator` judges the id and the login of a person."""
        self._store = store
        self._clock = clock
        self._signer = signer
        self._cookies = cookies
        self._is_operator = is_operator

    async def identify(self, request: web.Request) -> Viewer:
        """Return who sent a request; its response gets a new cookie when the session's secret was replaced."""
        cookie = self._cookies.get(request, _COOKIE)
        secret = self._signer.verify(_COOKIE, cookie) if cookie else None
        if secret is None:
            return ANONYMOUS
        now = self._clock.now()
        session = await self._store.read(lambda tx: tx.sessions.find(secret, now))
        if session is None:
            self._cookies.delete(request, _COOKIE)
            return ANONYMOUS
        await self._note_use(request, session, secret)
        return self._viewer(session)

    async def follow(self, who: Viewer) -> Viewer:
        """Return the same person if the session has not ended: for long answers, which cannot replace its secret."""
        session = await self._store.read(lambda tx: tx.sessions.get(who.token.id, self._clock.now()))
        return ANONYMOUS if session is None else self._viewer(session)

    async def begin(self, request: web.Request, person: Actor) -> None:
        """Begin a session of this person at the browser, and end the one that it had."""
        now = self._clock.now()
        before = self._signer.verify(_COOKIE, self._cookies.get(request, _COOKIE))
        async with self._store.transaction() as tx:
            if before is not None and (session := await tx.sessions.find(before, now)) is not None:
                await tx.sessions.end(session.id)
            secret = await tx.sessions.create(person_id=person.id, login=person.login, now=now)
            own = {"person_id": person.id}
            await tx.actions.add(ActionKind.LOGGED_IN, person.login, by=person.login, via="page", at=now, data=own)
            await tx.sessions.rename(person.id, person.login)
            if self._is_operator(person.id, person.login):
                await tx.sessions.own(person.login, person.id)
        self._set(request, secret)
        _log.info("logged_in", login=person.login, person_id=person.id)

    async def end(self, request: web.Request, who: Viewer, *, everywhere: bool) -> None:
        """End the session of this browser, or all sessions of the person."""
        async with self._store.transaction() as tx:
            if everywhere and who.person_id is not None:
                await tx.sessions.end_all(who.person_id)
            await tx.sessions.end(who.token.id)
            if who.login is not None:
                now, data = self._clock.now(), {"person_id": who.person_id, "everywhere": everywhere}
                await tx.actions.add(ActionKind.LOGGED_OUT, who.login, by=who.login, via="page", at=now, data=data)
        self._cookies.delete(request, _COOKIE)
        _log.info("logged_out", login=who.login, everywhere=everywhere)

    async def _note_use(self, request: web.Request, session: Session, secret: str) -> None:
        """Store the use, and replace the secret when it is time. A reader is answered while nothing can be written."""
        now = self._clock.now()
        if session.noted(now) and not session.needs_secret(now):
            return
        try:
            async with self._store.transaction() as tx:
                await tx.sessions.note_use(session, now)
                renewed = await tx.sessions.renew(session, secret, now) if session.needs_secret(now) else None
        except Exception as error:
            if fault_of(error) is None:
                raise
            _log.warning("session_use_not_recorded", exc_info=error)
            return
        if renewed is not None:
            self._set(request, renewed)

    def _viewer(self, session: Session) -> Viewer:
        # A login that its person gave up belongs to the next account that takes it.
        operator = self._is_operator(session.person_id, session.login if session.owns_login else "")
        grant = TokenPolicy(login=session.login, person_id=session.person_id, operator=operator)
        token = Token(session.id, session.login, grant, session.created_at, session.used_at)
        return Viewer(token, csrf=self._signer.derive(_CSRF, session.id))

    def _set(self, request: web.Request, secret: str) -> None:
        self._cookies.set(request, _COOKIE, self._signer.sign(_COOKIE, secret), _LIFE)
