"""Logins under way at one browser: GitHub's answer must belong to one of them."""

import hashlib
import hmac
import secrets
from dataclasses import dataclass
from datetime import timedelta

from aiohttp import web

from bot.web.addresses import own_path
from bot.web.login.cookies import Cookies
from bot.web.login.signing import Signer
from queue_engine.core.timing.clock import Clock

_COOKIE = "imq_login"
_LIFE = timedelta(minutes=10)
"""As long as GitHub's code lives."""
_MOST = 3
"""Tabs in which a person logs in at the same time."""
_LONGEST = 3800
"""Characters of the cookie's value: browsers refuse a cookie of more than 4096 (RFC 6265, section 6.1)."""


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
        self._clock = clock
        self._signer = signer
        self._cookies = cookies

    def begin(self, request: web.Request, to: str) -> Attempt:
        """Begin an attempt."""
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
        found = self._signer.verify_content(_COOKIE, self._cookies.get(request, _COOKIE), self._clock.now())
        return found or []

    def _keep(self, request: web.Request, attempts: list[list[str]]) -> None:
        if not attempts:
            self._cookies.delete(request, _COOKIE)
            return
        value = self._signer.sign_content(_COOKIE, attempts, self._clock.now(), _LIFE)
        if len(value) > _LONGEST:
            # The oldest goes: another site could else fill the cookie, and no login would be kept.
            self._keep(request, attempts[1:])
            return
        self._cookies.set(request, _COOKIE, value, _LIFE)


def _digest(state: str) -> str:
    return hashlib.sha256(state.encode()).hexdigest()
