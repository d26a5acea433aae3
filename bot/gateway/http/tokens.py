"""Sign requests: by the App's JWT, and by tokens of its installations, each for one scope.

Processes that share a database share their tokens: each loads the newest before asking GitHub for another. A token
lives for an hour (docs), beside others of its installation (sourcegraph-public-snapshot #51025).

GitHub may refuse a token that it just issued, which is no failure: IMQ waits 1, 2, 4, 8 s by the token's age. After
half a minute without an accepted token GitHub counts as failing.
"""

import asyncio
import json
from base64 import urlsafe_b64encode
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Protocol

from cachetools import LRUCache, TLRUCache, TTLCache
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from pydantic import SecretStr

from bot.gateway.http.scopes import Scope
from bot.settings.private_key import read_key
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.core.timing.clock import Clock

_CLOCK_SKEW = timedelta(seconds=60)
_JWT_LIFE = timedelta(minutes=8)
"""GitHub refuses JWTs that live longer than ten minutes by its own clock."""
_JWT_REUSE = timedelta(minutes=5)
_TOKEN_MARGIN = timedelta(minutes=10)
"""Tokens are renewed this long before they expire, so that each outlasts its request although clocks differ."""
_RENEW_BEFORE = timedelta(minutes=25)
"""`prepare` fetches the next token for writes this long before one expires."""
_MAX_TOKENS = 10_000

_NEW_FOR = timedelta(seconds=20)
"""How long a token counts as just issued. GitHub's replicas learn of it within seconds: octokit's auth-app.js tries
again for five (#65), which was not always enough (#589)."""
_LONGEST_REFUSAL = timedelta(seconds=30)
"""After so long without an accepted token, replicas do not lag any more: GitHub is failing."""


@dataclass(frozen=True, slots=True)
class Token:
    """An installation's token: opaque, of any length."""

    value: SecretStr
    expires_at: datetime
    issued_at: datetime
    permissions: Mapping[str, str] = field(default_factory=dict)
    """The permissions that were asked for."""
    issued: Mapping[str, str] = field(default_factory=dict)
    """The permissions that GitHub's answer names."""

    @property
    def incomplete(self) -> bool:
        """Whether GitHub issued it without a permission that was asked for, which passes with another token."""
        return bool(self.issued) and any(self.issued.get(name) != level for name, level in self.permissions.items())


class TokenStore(Protocol):
    """Stores tokens for all processes. `bot.gateway.http.stored_tokens` implements it."""

    async def load(self, scope: Scope) -> Token | None:
        """Load the newest token of this scope."""
        ...

    async def save(self, scope: Scope, token: Token) -> None:
        """Store a token that GitHub just issued."""
        ...

    async def forget(self, scope: Scope, value: SecretStr) -> None:
        """Delete this token, which GitHub no longer accepts; a newer one stays."""
        ...


class AppKey:
    """The App's private key. Raises ValueError when the PEM is not an unencrypted RSA key."""

    def __init__(self, app_id: str, private_key: SecretStr, clock: Clock) -> None:
        try:
            key = read_key(private_key.get_secret_value())
        except TypeError as error:
            raise ValueError("the key is encrypted") from error
        if not isinstance(key, RSAPrivateKey):
            raise ValueError("the key is not an RSA key")
        self._key = key
        self._app_id = app_id
        self._clock = clock
        self._cached: tuple[SecretStr, datetime] | None = None

    def jwt(self) -> SecretStr:
        """Return a JWT that GitHub accepts for the next minutes; issued a minute ago, as GitHub advises."""
        now = self._clock.now()
        if self._cached is None or now >= self._cached[1]:
            claims = {"iat": int((now - _CLOCK_SKEW).timestamp()), "exp": int((now + _JWT_LIFE).timestamp())}
            signed = f"{_part({'alg': 'RS256', 'typ': 'JWT'})}.{_part({**claims, 'iss': self._app_id})}"
            signature = _base64(self._key.sign(signed.encode(), PKCS1v15(), SHA256()))
            self._cached = SecretStr(f"{signed}.{signature}"), now + _JWT_REUSE
        return self._cached[0]


def _part(content: Mapping[str, object]) -> str:
    """Encode a header or claims (RFC 7515, section 3.1)."""
    return _base64(json.dumps(content).encode())


def _base64(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


class Tokens:
    """Caches one token per scope; concurrent callers share one renewal, and its failure."""

    def __init__(
        self,
        fetch: Callable[[Scope], Awaitable[Token]],
        clock: Clock,
        *,
        stored: TokenStore | None = None,
        fits: Callable[[Scope, Token], bool] = lambda scope, token: True,
    ) -> None:
        """`stored` are the tokens of all processes; `fits` checks whether one has the granted permissions."""
        self._fetch = fetch
        self._clock = clock
        self._stored = stored
        self._fits = fits
        self._renewed_at: LRUCache[int, datetime] = LRUCache(_MAX_TOKENS)
        """When an installation's tokens were last void: an older stored one is not used."""
        self._renewals: dict[Scope, asyncio.Task[Token]] = {}
        self._issued: LRUCache[Scope, tuple[SecretStr, datetime]] = LRUCache(_MAX_TOKENS)
        """The newest token of each scope, and when it was issued."""
        self._refused: LRUCache[Scope, datetime] = LRUCache(_MAX_TOKENS)
        """Since when GitHub has accepted no token of a scope."""
        self._cache: TLRUCache[Scope, Token] = TLRUCache(
            _MAX_TOKENS,
            ttu=_use_until,
            timer=lambda: clock.now().timestamp(),
        )
        self._previous: TTLCache[Scope, Token] = TTLCache(
            _MAX_TOKENS, _NEW_FOR.total_seconds(), timer=lambda: clock.now().timestamp()
        )
        """The token before one that was renewed ahead of time, until all of GitHub knows the new one."""

    async def get(self, scope: Scope) -> Token:
        """Return a token that is valid for minutes; the previous one while GitHub may not know it yet."""
        token: Token | None = self._cache.get(scope)
        if token is not None:
            previous: Token | None = self._previous.get(scope)
            return token if previous is None else previous
        return await self._renewed(scope)

    async def prepare(self, scope: Scope) -> None:
        """Fetch a token in advance, and the next one well before it expires."""
        token: Token | None = self._cache.get(scope)
        if token is None or token.expires_at - self._clock.now() < _RENEW_BEFORE:
            await self._renewed(scope)

    async def _renewed(self, scope: Scope) -> Token:
        renewal = self._renewals.get(scope)
        if renewal is None:
            renewal = asyncio.create_task(self._renew(scope))
            self._renewals[scope] = renewal
            renewal.add_done_callback(lambda task: self._done(scope, task))
        # Shielded: one caller who gives up must not take the token from the others.
        return await asyncio.shield(renewal)

    async def forget(self, scope: Scope, token: SecretStr) -> None:
        """Drop a token that GitHub no longer accepts. A newer one stays.

        GitHub answers 401 to a token that expired (docs) or was revoked (tibdex/github-app-token #98).
        """
        cached = self._cache.get(scope)
        if cached is not None and cached.value == token:
            del self._cache[scope]
        previous = self._previous.get(scope)
        if previous is not None and previous.value == token:
            del self._previous[scope]
        if self._stored is not None:
            await self._stored.forget(scope, token)

    def renew(self, installation_id: int) -> None:
        """Drop an installation's tokens, so that the next calls fetch some with its current permissions.

        A token keeps those it was issued with: 403 until it expired, after a grant (antifailure/antifailure #51).
        """
        self._renewed_at[installation_id] = self._clock.now()
        for scope in [scope for scope in self._cache if scope.installation_id == installation_id]:
            self._cache.pop(scope, None)
            self._previous.pop(scope, None)

    def accepted(self, scope: Scope) -> None:
        """Record that GitHub has accepted a token of this scope."""
        self._refused.pop(scope, None)

    def is_new(self, scope: Scope, token: SecretStr) -> bool:
        """Whether a token was just issued, so that some replicas of GitHub may not know it yet.

        That another call with the token succeeded proves nothing: its answer may have come from another replica.
        """
        value, issued_at = self._issued.get(scope, (None, None))
        return value == token and issued_at is not None and self._clock.now() - issued_at < _NEW_FOR

    def refused(self, scope: Scope) -> timedelta | None:
        """Record that GitHub refused a new token; return the wait, or None after half a minute without success.

        The wait is the token's age: 1, 2, 4, 8 seconds. So no caller has to count.
        """
        now = self._clock.now()
        if now - self._refused.setdefault(scope, now) >= _LONGEST_REFUSAL:
            return None
        _, issued_at = self._issued.get(scope, (None, now))
        return min(max(now - issued_at, OUTDATED.base), OUTDATED.maximum)

    async def _renew(self, scope: Scope) -> Token:
        token = await self._load(scope) or await self._fetch_and_store(scope)
        previous: Token | None = self._cache.get(scope)
        if previous is not None:
            self._previous[scope] = previous
        self._issued[scope] = token.value, token.issued_at
        self._cache[scope] = token
        return token

    async def _load(self, scope: Scope) -> Token | None:
        """Load the newest token of all processes, if it expires later than the cached one."""
        token = None if self._stored is None else await self._stored.load(scope)
        if token is None or not self._fits(scope, token):
            return None
        now, renewed_at = self._clock.now(), self._renewed_at.get(scope.installation_id)
        if not token.issued_at <= now or (renewed_at is not None and token.issued_at <= renewed_at):
            return None
        least = _TOKEN_MARGIN if self._cache.get(scope) is None else _RENEW_BEFORE
        return token if token.expires_at - now > least else None

    async def _fetch_and_store(self, scope: Scope) -> Token:
        token = await self._fetch(scope)
        if self._stored is not None:
            await self._stored.save(scope, token)
        return token

    def _done(self, scope: Scope, task: asyncio.Task[Token]) -> None:
        self._renewals.pop(scope, None)
        if not task.cancelled():
            task.exception()  # retrieved, so that asyncio does not report a failure without a waiter


def _use_until(_: Scope, token: Token, now: float) -> float:
    """Return until when a token fetched `now` is used, both in seconds since the epoch; at least half its life."""
    expires = token.expires_at.timestamp()
    return expires - min(_TOKEN_MARGIN.total_seconds(), (expires - now) / 2)
