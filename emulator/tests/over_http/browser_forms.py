"""A person without a browser: opens pages, reads forms, fills them in, sends them, keeps cookies."""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from types import TracebackType

import aiohttp
from yarl import URL


@dataclass
class Form:
    """A form as it was served: where it goes, and what it sends unchanged."""

    action: str
    fields: list[tuple[str, str]] = field(default_factory=list)
    choices: list[str] = field(default_factory=list)
    """The values of all checkboxes."""

    def filled(self, **values: str) -> list[tuple[str, str]]:
        """What is sent with these values instead."""
        return [(name, values.get(name, value)) for name, value in self.fields]


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[Form] = []
        self.links: list[str] = []
        self.refresh: str | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append(Form(given["action"]))
        elif tag == "a":
            self.links.append(given["href"])
        elif tag == "meta" and given.get("http-equiv") == "refresh":
            self.refresh = given["content"]
        elif tag == "input" and self.forms:
            if given["type"] == "checkbox":
                self.forms[-1].choices.append(given["value"])
            if given["type"] != "checkbox" or "checked" in given:
                self.forms[-1].fields.append((given["name"], given.get("value", "")))


@dataclass(frozen=True)
class Page:
    """A page that was shown, after all redirects."""

    url: URL
    status: int
    text: str
    headers: dict[str, str]
    forms: list[Form]
    links: list[str]
    refresh: str | None


class Person:
    """Somebody at a browser. Within `async with` the cookies are kept."""

    def __init__(self) -> None:
        # A process that starts anew closes the connections that it kept; a browser opens others.
        connector = aiohttp.TCPConnector(force_close=True)
        self.session = aiohttp.ClientSession(connector=connector, cookie_jar=aiohttp.CookieJar(unsafe=True))

    async def __aenter__(self) -> "Person":
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.session.close()

    async def open(self, url: str | URL) -> Page:
        async with self.session.get(url) as answer:
            return await _read(answer)

    async def send(self, page: Page, form: Form, fields: list[tuple[str, str]] | None = None) -> Page:
        """Press the button of a form on this page."""
        target = page.url.join(URL(form.action, encoded=True))
        data = aiohttp.FormData(form.fields if fields is None else fields)
        async with self.session.post(target, data=data) as answer:
            return await _read(answer)


async def _read(answer: aiohttp.ClientResponse) -> Page:
    text = await answer.text()
    reader = _Reader()
    reader.feed(text)
    return Page(answer.url, answer.status, text, dict(answer.headers), reader.forms, reader.links, reader.refresh)
