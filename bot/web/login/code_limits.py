"""Limit how many codes of GitHub one process exchanges, so that strangers keep no person from logging in.

A code is opaque: only GitHub knows whether it is made up. GitHub takes 2,000 such requests an hour of an App (its
pages "Rate limits for the REST API" and "Rate limits for OAuth apps"), so IMQ stays below. Each client has a share.
A browser whose person logged in before has another one, which no stranger can use: a signed cookie proves it.
"""

from datetime import datetime, timedelta

from aiohttp import web
from cachetools import LRUCache

from bot.http.client_address import ClientAddresses
from bot.web.login.cookies import Cookies
from bot.web.login.signing import Signer
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.rate_limit import RateLimit

OF_CLIENT_A_MINUTE, OF_CLIENT_AN_HOUR = 10, 30
"""Codes of one address, whose person is not known."""
OF_STRANGERS_AN_HOUR = 600
"""Codes of all whose person is not known. Two processes exchange less than GitHub takes."""
OF_PERSON_AN_HOUR = 20
OF_PERSONS_AN_HOUR = 300

_COOKIE = "imq_known"
_LIFE = timedelta(days=180)
_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)
_MAX_CLIENTS = 10_000


class CodeLimits:
    """The shares of clients and persons."""

    def __init__(self, clock: Clock, signer: Signer, cookies: Cookies, addresses: ClientAddresses) -> None:
        self._clock, self._signer, self._cookies, self._addresses = clock, signer, cookies, addresses
        self._strangers = RateLimit(OF_STRANGERS_AN_HOUR, _HOUR)
        self._persons = RateLimit(OF_PERSONS_AN_HOUR, _HOUR)
        self._shares: LRUCache[str, tuple[RateLimit, ...]] = LRUCache(_MAX_CLIENTS)

    def take(self, request: web.Request) -> timedelta:
        """Count a code; return how long to wait first, and count none then. Zero or less: exchange it."""
        limits, now = self._limits(request), self._clock.now()
        if (wait := max(each.wait(now) for each in limits)) <= timedelta(0):
            for each in limits:
                each.take(now)
        return wait

    def remember(self, request: web.Request, person_id: int) -> None:
        """Have the browser prove at its next login that this person logged in there."""
        value = self._signer.sign_content(_COOKIE, person_id, self._now(), _LIFE)
        self._cookies.set(request, _COOKIE, value, _LIFE)

    def _limits(self, request: web.Request) -> tuple[RateLimit, ...]:
        person = self._signer.verify_content(_COOKIE, self._cookies.get(request, _COOKIE), self._now())
        if person is not None:
            return self._persons, *self._share(f"person {person}", (OF_PERSON_AN_HOUR, _HOUR))
        client = self._addresses.share(request)
        if client is None:
            return (self._strangers,)
        each = (OF_CLIENT_A_MINUTE, _MINUTE), (OF_CLIENT_AN_HOUR, _HOUR)
        return self._strangers, *self._share(f"client {client}", *each)

    def _share(self, key: str, *limits: tuple[int, timedelta]) -> tuple[RateLimit, ...]:
        if key not in self._shares:
            self._shares[key] = tuple(RateLimit(most, span) for most, span in limits)
        return self._shares[key]

    def _now(self) -> datetime:
        return self._clock.now()
