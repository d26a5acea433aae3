"""Sign requests: by the App's JWT, and by tokens of its installations, each for one scope.

Processes that share a database share their tokens: each loads the newest before asking GitHub for another. A token
lives for an hour (docs), beside others of its installation (sourcegraph-public-snapshot #51025).

GitHub may refuse a token that it just issued, which is no failure: IMQ waits 1, 2, 4, 8 s by the token's age. After
half a minute without an accepted token GitHub counts as failing.

Each token is a request, and GitHub's replicas learn of a new one within seconds only; processes that are started again
and again would use up the App's own points, and wait for each new token. That such requests count is the careful
reading (codecov/shared #328 met 403, Pix4D/cogito #162 denies it).

A token is encrypted with a key derived from the App's private key: the database alone is useless to an attacker, and
the private key can create any token anyway.
"""

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import structlog
from cachetools import LRUCache, TLRUCache, TTLCache
from cryptography.fernet import Fernet, InvalidToken
from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from cryptography.hazmat.primitives.hashes import SHA256
from pydantic import SecretStr

from bot.gateway.http.client import Call
from bot.gateway.http.scopes import Purpose, Scope, requested_permissions, without
from bot.settings.private_key import derive_key, read_key
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.errors import GitHubError, Invalid
from queue_engine.domain.known_facts import SHARED_RULES
from queue_engine.store import Store
from queue_engine.store.github_tokens import TokenKey

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
    issued: Mapping[str, str] = field(default_factory=dict)
    """The permissions that GitHub's answer names."""

    @property
    def incomplete(self) -> bool:
        """Whether GitHub issued it without a permission that was asked for, which passes with another token."""
        return bool(self.issued) and any(self.issued.get(name) != level for name, level in self.permissions.items())


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
            # PyJWT, which gidgethub calls, too, loads all of X.509: 0.9 MiB from the first token on, however late.
            signed = f"{_part({'typ': 'JWT', 'alg': 'RS256'})}.{_part({**claims, 'iss': self._app_id})}"
            signature = self._key.sign(signed.encode(), PKCS1v15(), SHA256())
            self._cached = SecretStr(f"{signed}.{_base64(signature)}"), now + _JWT_REUSE
        return self._cached[0]


def _part(content: Mapping[str, Any]) -> str:
    return _base64(json.dumps(content, separators=(",", ":")).encode())


def _base64(content: bytes) -> str:
    """Return base64url without padding (RFC 7515, appendix C)."""
    return base64.urlsafe_b64encode(content).rstrip(b"=").decode()


_KEY_INFO = b"imq installation tokens"
"""The purpose of the key, which keeps it different from other keys derived from the same private key."""


@dataclass(frozen=True, slots=True)
class _StoredToken:
    sealed: str
    token: Token


class StoredTokens:
    """Saves and loads the newest token of each scope."""

    def __init__(self, store: Store, private_key: SecretStr) -> None:
        """`private_key` is the App's, as PEM."""
        self._store = store
        self._cipher = Fernet(derive_key(private_key.get_secret_value(), _KEY_INFO))

    async def load(self, scope: Scope) -> Token | None:
        """Load the newest token of this scope. Raises errors of the database."""
        found = await self._find(scope)
        return None if found is None else found.token

    async def save(self, scope: Scope, token: Token) -> None:
        """Store a token that GitHub just issued."""
        sealed = self._cipher.encrypt(_serialize(scope, token)).decode()
        await self._store.write(lambda tx: tx.installation_tokens.put(_row(scope), sealed, token.issued_at))

    async def forget(self, scope: Scope, value: SecretStr) -> None:
        """Delete this token, which GitHub no longer accepts; a newer one stays."""
        found = await self._find(scope)
        if found is not None and found.token.value == value:
            await self._store.write(lambda tx: tx.installation_tokens.forget(_row(scope), found.sealed))

    async def _find(self, scope: Scope) -> _StoredToken | None:
        sealed = await self._store.read(lambda tx: tx.installation_tokens.find(_row(scope)))
        if sealed is None:
            return None
        try:
            token = _deserialize(scope, self._cipher.decrypt(sealed))
        except InvalidToken:
            return None  # Encrypted with another private key: the operator replaced the App's.
        return None if token is None else _StoredToken(sealed, token)


def _row(scope: Scope) -> TokenKey:
    return TokenKey(scope.installation_id, scope.repository_id, scope.purpose.value)


def _serialize(scope: Scope, token: Token) -> bytes:
    return json.dumps(
        {
            "scope": [scope.installation_id, scope.repository_id, scope.purpose],
            "value": token.value.get_secret_value(),
            "issued_at": token.issued_at.isoformat(),
            "expires_at": token.expires_at.isoformat(),
            "permissions": dict(token.permissions),
            "issued": dict(token.issued),
        }
    ).encode()


def _deserialize(scope: Scope, written: bytes) -> Token | None:
    """Parse what `_serialize` wrote; return None if it was written for another scope."""
    read = json.loads(written)
    if read["scope"] != [scope.installation_id, scope.repository_id, scope.purpose]:
        return None
    return Token(
        SecretStr(read["value"]),
        expires_at=datetime.fromisoformat(read["expires_at"]).astimezone(UTC),
        issued_at=datetime.fromisoformat(read["issued_at"]).astimezone(UTC),
        permissions=read["permissions"],
        issued=read.get("issued", {}),
    )


log = structlog.get_logger("bot.gateway.http.connection")


class Tokens:
    """Caches one token per scope; concurrent callers share one renewal, and its failure."""

    def __init__(
        self,
        fetch: Callable[[Scope], Awaitable[Token]],
        clock: Clock,
        *,
        stored: StoredTokens | None = None,
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
            _MAX_TOKENS, ttu=_use_until, timer=lambda: clock.now().timestamp()
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
        """Drop a token that expired (docs) or was revoked (tibdex/github-app-token #98): a 401. A newer one stays."""
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
        """Record that GitHub refused a new token; return the wait, which is its age (1, 2, 4, 8 s), None after 30 s."""
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


_MAX_INSTALLATIONS = 10_000

_NOT_GRANTED = "not granted to this installation"
_NOT_ACCESSIBLE = "not accessible to the parent installation"
"""GitHub's message for a token beyond the installation (PyGithub #3539, tibdex/github-app-token #105)."""


class Grants:
    """Remembers the permissions that each installation grants, as far as GitHub has listed them."""

    def __init__(self) -> None:
        self._granted: LRUCache[int, Mapping[str, str]] = LRUCache(_MAX_INSTALLATIONS)

    def of(self, installation_id: int) -> Mapping[str, str] | None:
        """Return the permissions of an installation; None if they are not known."""
        return self._granted.get(installation_id)

    def note(self, installation_id: int, permissions: Mapping[str, str]) -> bool:
        """Remember the permissions; return whether they changed."""
        known = self._granted.get(installation_id)
        if known == permissions:
            return False
        self._granted[installation_id] = dict(permissions)
        for permission, consequence in without(permissions).items():
            log.info("permission_missing", installation=installation_id, permission=permission, without=consequence)
        return known is not None

    def missing(self, installation_id: int) -> Mapping[str, str]:
        """Return the optional permissions that an installation is known to lack, each with its consequence."""
        granted = self._granted.get(installation_id)
        return {} if granted is None else without(granted)

    def forget(self, installation_id: int) -> None:
        """Forget the permissions of an installation."""
        self._granted.pop(installation_id, None)

    def fits(self, scope: Scope, token: Token) -> bool:
        """Whether a stored token has the permissions that the installation is known to grant."""
        granted = self._granted.get(scope.installation_id)
        return granted is None or token.permissions == requested_permissions(scope, granted)


def token_request(scope: Scope, granted: Mapping[str, str] | None) -> Call:
    """`POST /app/installations/{installation_id}/access_tokens`, for the scope and no more."""
    body: dict[str, Any] = {"permissions": requested_permissions(scope, granted)}
    if scope.repository_id is not None:
        body["repository_ids"] = [scope.repository_id]
    elif scope.purpose is Purpose.SHARED:
        body["repositories"] = [SHARED_RULES]
    template = "/app/installations/{installation_id}/access_tokens"
    return Call("POST", template, {"installation_id": str(scope.installation_id)}, body=body)


def exceeds_grant(refusal: Invalid) -> bool:
    """Whether GitHub refused a token because the installation does not grant its permissions."""
    return _NOT_GRANTED in refusal.message.lower()


def is_inaccessible(refusal: GitHubError) -> bool:
    """Whether GitHub refused a token because the installation does not have the repository."""
    return _NOT_ACCESSIBLE in refusal.message.lower()
