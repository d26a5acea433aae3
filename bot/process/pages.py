"""Build the pages of one process, and list all of them."""

from collections.abc import Callable
from functools import partial

from aiohttp import ClientSession, web

from bot.api.access import Access
from bot.gateway.app import App
from bot.http.client_address import ClientAddresses
from bot.http.limits import file_limit, limits_for
from bot.process.page_login import build_login
from bot.settings.environment import Settings
from bot.settings.github_website import website
from bot.web.live.feed import Feed
from bot.web.live.request_ids import RequestIds
from bot.web.live.request_watch import TOPIC as REQUESTS
from bot.web.live.request_watch import RequestWatch
from bot.web.live.streams import STREAMS_SHARE, EventStreams, StreamLimits
from bot.web.pages.controls import Controls
from bot.web.pages.login import LoginPages
from bot.web.pages.overview import OverviewPage
from bot.web.pages.programs import EventPages
from bot.web.pages.pull_request import PullRequestPage
from bot.web.pages.queue import QueuePage
from bot.web.pages.requests import RequestPages
from bot.web.pages.shadow import ShadowPage
from bot.web.pages.site import Pages, Site, add_pages
from bot.web.pages.statistics import StatisticsPages
from queue_engine.effects.context import Engine

PAGES: tuple[Callable[[Site], Pages], ...] = (
    OverviewPage,
    QueuePage,
    PullRequestPage,
    Controls,
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
