"""Build the pages of one process, and list all of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from aiohttp import ClientSession, web

from bot.api.permissions import Access
from bot.gateway.github_app import App
from bot.gateway.http.client import Client
from bot.http.client_address import ClientAddresses
from bot.http.connections import file_limit, limits_for
from bot.settings.environment import Settings
from bot.settings.private_key import derive_secret
from bot.settings.setting_values import website
from bot.web.live.feed import Feed
from bot.web.live.request_watch import TOPIC as REQUESTS
from bot.web.live.request_watch import RequestIds, RequestWatch
from bot.web.live.streams import STREAMS_SHARE, EventStreams, StreamLimits
from bot.web.login.attempts import Attempts, CodeLimits
from bot.web.login.identity import AppLogin, Identity
from bot.web.login.session_cookies import Cookies, Flash, Logins, Signer
from bot.web.pages.controls import Controls
from bot.web.pages.login_pages import LoginPages, LoginParts
from bot.web.pages.pull_request import LandingsPage, PullRequestPage
from bot.web.pages.queue import OverviewPage, QueuePage
from bot.web.pages.request_pages import EventPages, RequestPages
from bot.web.pages.shadow import ShadowPage
from bot.web.pages.site import Pages, Site, add_pages
from bot.web.pages.statistics import StatisticsPages
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
    return Signer([derive_secret(key.get_secret_value(), _PURPOSE) for key in given if key is not None])


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


PAGES: tuple[Callable[[Site], Pages], ...] = (
    OverviewPage,
    QueuePage,
    PullRequestPage,
    Controls,
    LandingsPage,
    ShadowPage,
    StatisticsPages,
)
"""Every class of pages that needs nothing but the site."""


def add_site(
    app: web.Application,
    settings: Settings,
    engine: Engine,
    access: Access,
    streams: EventStreams,
    *,
    session: ClientSession,
    github: App,
) -> Site:
    """Add all pages to the application of a process. `session` and `github` ask GitHub who a person is."""
    login = build_login(settings, engine, session, github)
    site = Site(
        engine,
        access,
        github=website(settings.github_api_url),
        identify=None if login.logins is None else login.logins.identify,
        follow=None if login.logins is None else login.logins.follow,
        flash=login.flash,
        own_origin=settings.public_url,
        public_pages=settings.public_pages,
    )
    others: list[Pages] = [
        LoginPages(site, login.parts, login.missing),
        EventPages(site, streams),
        RequestPages(site, RequestIds(settings.github_private_key)),
    ]
    add_pages(app, site, [*others, *(create(site) for create in PAGES)])
    return site


def create_feed(engine: Engine) -> tuple[Feed, RequestWatch]:
    """Create the feed and the watch of a process; events of the feed hasten the watch."""
    changed = partial(engine.wakeup.notify, REQUESTS)
    feed, watch = (
        Feed(engine.store, engine.clock),
        RequestWatch(engine.store, engine.clock, engine.random, changed=changed),
    )
    feed.subscribe(watch.happened)
    return feed, watch


def create_streams(settings: Settings, engine: Engine, access: Access, feed: Feed, watch: RequestWatch) -> EventStreams:
    """Create the event streams of a process, as many as its connections allow."""
    limits = StreamLimits(streams=limits_for(file_limit()).connections // STREAMS_SHARE)
    ids = RequestIds(settings.github_private_key)
    addresses = ClientAddresses(settings.trusted_proxies, settings.client_header)
    return EventStreams(engine, access, feed, watch, ids=ids, addresses=addresses, limits=limits)
