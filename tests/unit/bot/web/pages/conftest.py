"""A reader of the pages of statistics."""

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from bot.api.permissions import Access
from bot.web.login.session_cookies import Viewer
from bot.web.pages.queue import OverviewPage, QueuePage
from bot.web.pages.shadow import ShadowPage
from bot.web.pages.site import Site, add_pages
from bot.web.pages.statistics import StatisticsPages
from queue_engine.config.model import Policy
from queue_engine.effects.context import Engine
from queue_engine.store import Store
from tests.store.examples import OTHER, queue
from tests.support.policies import StaticPolicies
from tests.unit.bot.web.pages.statistics_pages import Browser, Reader, Stopped, person


@pytest.fixture
async def browser(store: Store) -> AsyncIterator[Browser]:
    """Mona at the pages of a store that has a queue in each of two repositories."""
    engine = Engine(store, cast(Any, None), Stopped(), StaticPolicies(Policy()), lambda: 0.5, "test")
    async with store.transaction() as tx:
        await queue(tx)
        await queue(tx, repository=OTHER)

    async def identify(_request: web.Request) -> Viewer:
        return found.who

    site = Site(engine, Access(engine, Reader()), github="https://github.com", identify=identify)
    app = web.Application()
    add_pages(app, site, [OverviewPage(site), QueuePage(site), StatisticsPages(site), ShadowPage(site)])
    async with TestClient(TestServer(app)) as client:
        found = Browser(client, store, person())
        yield found
