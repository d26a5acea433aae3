"""People with a browser at the pages of a world's bot, logged in as one person each."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from html.parser import HTMLParser
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from bot.api.access import Access
from bot.process.pages import PAGES
from bot.web.login.cookies import Cookies, Flash, Signer
from bot.web.login.sessions import ANONYMOUS, Viewer
from bot.web.pages.requests import RequestPages
from bot.web.pages.site import Site, add_pages
from queue_engine.domain.facts import Permission
from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.failed_requests import opaque_ids
from tests.acceptance.world import World

CSRF = "the secret of the session"


@dataclass
class Page:
    """A page as a browser got it."""

    status: int
    location: str | None
    html: str
    text: str = ""
    """What a person reads, in one line."""
    forms: list[str] = field(default_factory=list)
    """The addresses of its forms that change something."""
    links: list[str] = field(default_factory=list)
    tags: set[str] = field(default_factory=set)


class _Reader(HTMLParser):
    def __init__(self, page: Page) -> None:
        super().__init__()
        self.page, self.words = page, list[str]()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = dict(attrs)
        assert not any(name.startswith("on") or name == "style" for name in named), f"{tag} {named}"
        self.page.tags.add(tag)
        if tag == "form" and named.get("method") == "post":
            self.page.forms.append(named.get("action") or "")
        if tag == "a":
            self.page.links.append(named.get("href") or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@dataclass
class PageReader:
    """A person at the pages."""

    client: TestClient[web.Request, web.Application]
    csrf: str = CSRF

    async def get(self, path: str) -> Page:
        response = await self.client.get(path, headers={"Accept": "text/html"}, allow_redirects=False)
        return _read(response.status, response.headers.get("Location"), await response.text())

    async def post(self, path: str, **fields: str) -> Page:
        """Send a form, and follow it to the page that it leads to."""
        sent = {"csrf": self.csrf, **fields}
        response = await self.client.post(path, data=sent, headers={"Accept": "text/html"}, allow_redirects=False)
        if response.status == 303:
            return await self.get(response.headers["Location"])
        return _read(response.status, None, await response.text())


def _read(status: int, location: str | None, html: str) -> Page:
    page = Page(status, location, html)
    reader = _Reader(page)
    reader.feed(html)
    page.text = " ".join(" ".join(reader.words).split())
    return page


@asynccontextmanager
async def reader(world: World, login: str | None, *, operator: bool = False) -> AsyncIterator[PageReader]:
    """Somebody who is logged in as this person, or without login; sessions are tested elsewhere."""
    app, engine = web.Application(), world.bot.engine
    who = ANONYMOUS if login is None else person(world, login, operator=operator)

    async def identify(_request: web.Request) -> Viewer:
        return who

    access = Access(engine, world.bot.gateway.people)
    flash = Flash(engine.clock, Signer([b"k" * 32]), Cookies(secure=False))
    site = Site(engine, access, github="https://github.com", identify=identify, flash=flash)
    add_pages(app, site, [RequestPages(site, opaque_ids(world)), *(create(site) for create in PAGES)])
    async with TestClient(TestServer(app)) as client:
        yield PageReader(client)


def person(world: World, login: str, *, operator: bool = False) -> Viewer:
    """Somebody with a session."""
    account: Any = next(each for each in world.github.state.users.values() if each.login == login)
    grant = TokenPolicy(login=login, person_id=account.id, access=Permission.MAINTAIN, operator=operator)
    return Viewer(replace(ANONYMOUS.token, id=login, grant=grant), csrf=CSRF)
