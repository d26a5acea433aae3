"""Find the person of a request by the session's cookie, and begin and end sessions."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

import structlog
from aiohttp import web

from bot.api.auth import ANONYMOUS as NO_PERSON
from bot.api.auth import act_as
from bot.web.login.cookies import Cookies, Signer
from queue_engine.core.database.outage import fault_of
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import Actor
from queue_engine.store import Store
from queue_engine.store.sessions import Session
from queue_engine.store.tokens import Token, TokenPolicy


@dataclass(frozen=True, slots=True)
class Viewer:
    """Who looks at a page. `token` has the permissions of the person, for `bot.api.access.Access`."""

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
"""A person who is not logged in."""

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
        async with self._store.reading() as tx:
            session = await tx.sessions.find(secret, now)
        if session is None:
            self._cookies.delete(request, _COOKIE)
            return ANONYMOUS
        await self._note_use(request, session, secret)
        return self._viewer(session)

    async def follow(self, who: Viewer) -> Viewer:
        """Return the same person if the session has not ended: for long answers, which cannot replace its secret."""
        async with self._store.reading() as tx:
            session = await tx.sessions.get(who.token.id, self._clock.now())
        return ANONYMOUS if session is None else self._viewer(session)

    async def begin(self, request: web.Request, person: Actor) -> None:
        """Begin a session of this person at the browser, and end the one that it had."""
        now = self._clock.now()
        before = self._signer.verify(_COOKIE, self._cookies.get(request, _COOKIE))
        async with self._store.transaction() as tx:
            if before is not None and (session := await tx.sessions.find(before, now)) is not None:
                await tx.sessions.end(session.id)
            secret = await tx.sessions.create(person_id=person.id, login=person.login, now=now)
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
