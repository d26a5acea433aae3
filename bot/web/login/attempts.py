"""Logins under way at one browser, and how many codes of GitHub one process exchanges.

GitHub's answer must belong to a login under way. A code is opaque: only GitHub knows whether it is made up. GitHub
takes 2,000 such requests an hour of an App (its pages "Rate limits for the REST API" and "Rate limits for OAuth apps").
So IMQ stays below, and strangers keep no person from logging in: each client has a share. A browser whose person logged
in before has another one, which no stranger can use: a signed cookie proves it.
"""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta

from aiohttp import web

from bot.http.client_address import ClientAddresses
from bot.web.addresses import own_path
from bot.web.login.session_cookies import Cookies, SignedCookie, Signer
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import KeyLimits

_LIFE = timedelta(minutes=10)
"""As long as GitHub's code lives."""
_MOST = 3
"""Tabs in which a person logs in at the same time."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A login under way."""

    state: str
    verifier: str
    to: str
    """The page that the person wants to see."""


class Attempts:
    """Keeps attempts in a signed cookie, the state as its digest: one browser can finish what it began, once."""

    def __init__(self, clock: Clock, signer: Signer, cookies: Cookies) -> None:
        self._cookie = SignedCookie("imq_login", _LIFE, clock, signer, cookies)

    def begin(self, request: web.Request, to: str) -> Attempt:
        attempt = Attempt(secrets.token_urlsafe(32), secrets.token_urlsafe(48), own_path(to))
        self._keep(request, [*self._kept(request), [_digest(attempt.state), attempt.verifier, attempt.to]][-_MOST:])
        return attempt

    def finish(self, request: web.Request, state: str) -> Attempt | None:
        """Return the attempt with this state; None if this browser began none, or finished it already."""
        kept = self._kept(request)
        for each in kept:
            digest, verifier, to = each
            if hmac.compare_digest(digest, _digest(state)):
                self._keep(request, [other for other in kept if other is not each])
                return Attempt(state, verifier, own_path(to))
        return None

    def _kept(self, request: web.Request) -> list[list[str]]:
        return self._cookie.get(request) or []

    def _keep(self, request: web.Request, attempts: list[list[str]]) -> None:
        if not attempts:
            self._cookie.delete(request)
        elif not self._cookie.put(request, attempts):
            # The oldest goes: another site could else fill the cookie, and no login would be kept.
            self._keep(request, attempts[1:])


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()


OF_CLIENT_A_MINUTE, OF_CLIENT_AN_HOUR = 10, 30
"""Codes of one address, whose person is not known."""
OF_STRANGERS_AN_HOUR = 600
"""Codes of all whose person is not known. Two processes exchange less than GitHub takes."""
OF_PERSON_AN_HOUR = 20
OF_PERSONS_AN_HOUR = 300

_KNOWN = timedelta(days=180)
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_MAX_CLIENTS = 10_000


class CodeLimits:
    """The shares of clients and persons."""

    def __init__(self, clock: Clock, signer: Signer, cookies: Cookies, addresses: ClientAddresses) -> None:
        self._clock, self._addresses = clock, addresses
        self._cookie = SignedCookie("imq_known", _KNOWN, clock, signer, cookies)
        each = (OF_CLIENT_A_MINUTE, _MINUTE), (OF_CLIENT_AN_HOUR, _HOUR)
        self._clients = KeyLimits(*each, together=[(OF_STRANGERS_AN_HOUR, _HOUR)], most_keys=_MAX_CLIENTS)
        of_all = (OF_PERSONS_AN_HOUR, _HOUR)
        self._persons = KeyLimits((OF_PERSON_AN_HOUR, _HOUR), together=[of_all], most_keys=_MAX_CLIENTS)

    def take(self, request: web.Request) -> timedelta:
        """Count a code; return how long to wait first, and count none then. Zero or less: exchange it."""
        if (person := self._cookie.get(request)) is not None:
            return self._persons.take(str(person), self._clock.now())
        return self._clients.take(self._addresses.share(request), self._clock.now())

    def remember(self, request: web.Request, person_id: int) -> None:
        """Have the browser prove at its next login that this person logged in there."""
        self._cookie.put(request, person_id)
