"""Build what logs people in to the pages of one process, as far as the settings allow."""

from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import ClientSession

from bot.gateway.app import App
from bot.gateway.http.client import Client
from bot.http.client_address import ClientAddresses
from bot.settings.derived_keys import derive_key
from bot.settings.environment import Settings
from bot.settings.github_website import website
from bot.web.login.attempts import Attempts, CodeLimits
from bot.web.login.cookies import Cookies, Flash, Signer
from bot.web.login.identity import AppLogin, Identity
from bot.web.login.sessions import Logins
from bot.web.pages.login import LoginParts
from queue_engine.effects.context import Engine

_PURPOSE = "imq page cookies"


@dataclass(frozen=True, slots=True)
class PageLogin:
    """The sessions of people, and their login; None for what a missing setting prevents."""

    logins: Logins | None
    flash: Flash | None
    parts: LoginParts | None
    missing: Sequence[str]
    """The settings that a login needs."""


def build_login(settings: Settings, engine: Engine, session: ClientSession, github: App) -> PageLogin:
    """Build the login. `session` and `github` ask GitHub who a person is."""
    missing = settings.missing_for_login()
    signer = _signer(settings)
    if signer is None:
        return PageLogin(None, None, None, missing)
    clock = engine.clock
    cookies = Cookies(secure=urlsplit(settings.public_url or "").scheme == "https")
    logins = Logins(engine.store, clock, signer, cookies, is_operator=settings.is_operator)
    identity = _identity(settings, engine, session, github)
    limits = CodeLimits(clock, signer, cookies, ClientAddresses(settings.trusted_proxies, settings.client_header))
    parts = None if identity is None else LoginParts(identity, Attempts(clock, signer, cookies), logins, limits)
    return PageLogin(logins, Flash(clock, signer, cookies), parts, missing)


def _signer(settings: Settings) -> Signer | None:
    if settings.secret_key is None:
        return None
    given = (settings.secret_key, settings.former_secret_key)
    return Signer([derive_key(key.get_secret_value(), _PURPOSE) for key in given if key is not None])


def _identity(settings: Settings, engine: Engine, session: ClientSession, github: App) -> Identity | None:
    if settings.public_url is None or settings.client_secret is None:
        return None
    origin = website(settings.github_api_url)
    app = AppLogin(
        website=origin,
        callback=f"{settings.public_url}/auth/callback",
        client_id=_ClientId(settings.client_id, github).get,
        client_secret=settings.client_secret,
    )
    site, api = (Client(session, api_url=url, clock=engine.clock) for url in (origin, settings.github_api_url))
    return Identity(app, site=site, api=api)


class _ClientId:
    """The App's client id, from the settings or from GitHub."""

    def __init__(self, given: str | None, github: App) -> None:
        self._known = given
        self._github = github

    async def get(self) -> str:
        """Return it; asks once. Raises GitHubError."""
        if not self._known:
            self._known = (await self._github.read()).client_id
        return self._known
