"""Who calls: an app by its JSON web token, an installation or a person by a token, or no one; and what they may."""

import binascii
import json
import random
import string
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from jwt import InvalidTokenError
from jwt.api_jws import PyJWS

from github_emulator.callers.errors import Refusal, bad_credentials, not_found
from github_emulator.core.clock import Clock
from github_emulator.facade.github import GitHub
from github_emulator.payloads.times import timestamp
from github_emulator.state import Actor, App, Installation, Repository, User

_LIFE = timedelta(hours=1)
_LENGTH = 516
_UNDECODABLE = "A JSON web token could not be decoded"
_EXP_NUMERIC = (
    "'Expiration time' claim ('exp') must be a numeric value representing the future time at which the assertion "
    "expires"
)
_EXP_FAR = "'Expiration time' claim ('exp') is too far in the future"
_IAT_INTEGER = "'Issued at' claim ('iat') must be an Integer representing the time that the assertion was issued"
_ISS_MISSING = "Missing 'issuer' claim ('iss')"
_ISS_INTEGER = "'Issuer' claim ('iss') must be an Integer"
_MOST_AHEAD = 600
_DRIFT = 60
"""Seconds: a JWT ends within ten minutes, and a client's clock may be a minute ahead."""


@dataclass(frozen=True)
class Caller:
    """Who calls. `key` is whose limits count; `repositories` are the ids a token was narrowed to, None for no limit."""

    key: str
    actor: Actor | None = None
    app: App | None = None
    installation: Installation | None = None
    repositories: frozenset[int] | None = None

    def covers(self, repository: Repository) -> bool:
        """Whether this is an installation's token that reaches the repository."""
        if self.installation is None or not self.installation.covers(repository):
            return False
        return self.repositories is None or repository.id in self.repositories


ANONYMOUS = Caller("anonymous")


@dataclass(frozen=True)
class Token:
    """An installation's access token: opaque, valid until `expires_at`."""

    text: str
    installation: Installation
    permissions: Mapping[str, str]
    repositories: frozenset[int] | None
    expires_at: datetime
    issued_at: datetime


class Tokens:
    """The tokens that were handed out, and the reading of those that come in."""

    def __init__(self, github: GitHub, *, jwt_clock: Clock, seed: int = 0) -> None:
        self._github = github
        self._jwt_clock = jwt_clock
        self._random = random.Random(seed)
        self._installations: dict[str, Token] = {}
        self._users: dict[str, User] = {}
        self.unknown_for: Callable[[], timedelta] = timedelta
        """How long a new token is refused, drawn for each request."""

    def user(self, login: str) -> str:
        """A person's token: the API answers it as it would answer that person."""
        token = self._opaque("ghp_", 36)
        self._users[token] = self._github.state.users[login.lower()]
        return token

    def user_of_app(self, login: str) -> str:
        """A token that a person gave to an App ("user access token")."""
        token = self._opaque("ghu_", 36)
        self._users[token] = self._github.state.users[login.lower()]
        return token

    def revoke_user(self, token: str) -> bool:
        """Refuse a person's token from now on; False for an unknown one."""
        return self._users.pop(token, None) is not None

    @property
    def users(self) -> int:
        """How many tokens of people are valid."""
        return len(self._users)

    def issue(
        self, installation: Installation, permissions: Mapping[str, str], repositories: Iterable[int] | None
    ) -> Token:
        """A new installation token, valid for an hour of the emulator's clock."""
        narrowed = None if repositories is None else frozenset(repositories)
        text = self._opaque("ghs_", _LENGTH)
        now = self._github.clock.now()
        expires = (now + _LIFE).replace(microsecond=0)
        token = Token(text, installation, dict(permissions), narrowed, expires, now)
        self._installations[text] = token
        return token

    def revoke_all(self) -> None:
        """Every token handed out so far is refused from now on."""
        self._installations.clear()
        self._users.clear()

    def caller(self, authorization: str | None) -> Caller:
        """Who an Authorization header stands for. Raises 401 with GitHub's sentence."""
        if authorization is None:
            return ANONYMOUS
        scheme, _, credentials = authorization.strip().partition(" ")
        credentials = credentials.strip()
        if scheme.lower() not in ("bearer", "token"):
            raise bad_credentials()
        if credentials.count(".") == 2:
            app = read_jwt(credentials, self._github.state.apps.values(), self._jwt_clock.now())
            return Caller(f"app {app.id}", app=app)
        if user := self._users.get(credentials):
            return Caller(f"user {user.id}", actor=Actor(user))
        return self._installation(credentials)

    def _installation(self, credentials: str) -> Caller:
        token = self._installations.get(credentials)
        now = self._github.clock.now()
        if token is None or now >= token.expires_at or now < token.issued_at + self.unknown_for():
            raise bad_credentials()
        installation = token.installation
        answer = self._github.behaviour.uninstalled_tokens
        if installation.id not in self._github.state.installations and answer != "valid":
            raise not_found() if answer == "not_found" else bad_credentials()
        if installation.suspended_at is not None:
            # In other words than the request of a token (octokit.rb's `lib/octokit/error.rb` knows both).
            since = timestamp(installation.suspended_at)
            owner = installation.account.login
            raise Refusal(403, f"Sorry. This installation owned by {owner} suspended your access at {since}.")
        actor = Actor(installation.app.bot, installation.app, token.permissions)
        return Caller(f"installation {installation.id}", actor, installation.app, installation, token.repositories)

    def _opaque(self, prefix: str, length: int) -> str:
        letters = string.ascii_letters + string.digits
        return prefix + "".join(self._random.choices(letters, k=length))


def read_jwt(text: str, apps: Iterable[App], now: datetime) -> App:
    """The app that signed the token. Raises 401 (404 for an unknown issuer) in GitHub's words."""
    claims = _claims(text)
    issuer = claims.get("iss")
    if issuer is None:
        raise Refusal(401, _ISS_MISSING)
    if not isinstance(issuer, str | int) or isinstance(issuer, bool):
        raise Refusal(401, _ISS_INTEGER)
    app = next((app for app in apps if str(issuer) in (str(app.id), app.client_id)), None)
    if app is None:
        raise Refusal(404, "Integration not found")
    try:
        PyJWS().decode(text, app.public_key, algorithms=["RS256"])
    except InvalidTokenError as error:
        raise Refusal(401, _UNDECODABLE) from error
    _check_times(claims, now.timestamp())
    return app


def _claims(text: str) -> dict[str, Any]:
    try:
        payload = PyJWS().decode(text, options={"verify_signature": False})
        claims = json.loads(payload)
    except (InvalidTokenError, ValueError, binascii.Error) as error:
        raise Refusal(401, _UNDECODABLE) from error
    if not isinstance(claims, dict):
        raise Refusal(401, _UNDECODABLE)
    return claims


def _check_times(claims: Mapping[str, Any], now: float) -> None:
    expires, issued = claims.get("exp"), claims.get("iat")
    if not isinstance(expires, int | float) or expires <= now:
        raise Refusal(401, _EXP_NUMERIC)
    if expires > now + _MOST_AHEAD:
        raise Refusal(401, _EXP_FAR)
    if not isinstance(issued, int) or issued > now + _DRIFT:
        raise Refusal(401, _IAT_INTEGER)
