"""People at browsers, at the pages of a real bot: they log in through the emulator, follow links and send forms.

The bot believes to be at `https://imq.test`; a browser here sends what it would send there to the bot's own port.
"""

from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

import aiohttp
from yarl import URL

from tests.acceptance.world import World

HOME = "https://imq.test"
CALLBACK = f"{HOME}/auth/callback"
CLIENT_SECRET = "client-s3cret-0123456789"
SETTINGS = {
    "IMQ_PUBLIC_URL": HOME,
    "IMQ_SECRET_KEY": "a-secret-key-of-the-pages-0123",
    "IMQ_GITHUB_CLIENT_SECRET": CLIENT_SECRET,
    "IMQ_CORRECT_WEBHOOK": "0",
}
"""What lets people log in."""
SESSION = "__Host-imq_session"
_HTML = {"Accept": "text/html,application/xhtml+xml"}


def allow_login(world: World) -> None:
    """What the App's owner enters on its settings page."""
    world.app.client_secret, world.app.callback_urls = CLIENT_SECRET, (CALLBACK,)


@dataclass
class Shown:
    """What a browser got for one request."""

    status: int
    text: str
    headers: Any

    @property
    def location(self) -> str:
        """Where it leads, without the origin of IMQ."""
        return str(self.headers["Location"]).removeprefix(HOME)


class _Fields(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.forms: list[tuple[str, dict[str, str]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        if tag == "form":
            self.forms.append((given["action"], {}))
        elif tag == "input" and self.forms:
            self.forms[-1][1][given["name"]] = given.get("value", "")


def forms(text: str) -> list[tuple[str, dict[str, str]]]:
    """The forms of a page: where each goes, and what it sends."""
    reader = _Fields()
    reader.feed(text)
    return reader.forms


@dataclass
class Browser:
    """One browser of a person. Its cookies for IMQ are in `cookies`."""

    world: World
    session: aiohttp.ClientSession
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Shown:
        return await self._send("GET", path, None, headers)

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> Shown:
        return await self._send("POST", path, fields, headers)

    async def press(self, page: str, action: str, **fields: str) -> Shown:
        """Open a page and send its form that goes to `action`."""
        sent = dict(forms((await self.get(page)).text))[action]
        return await self.post(action, {**sent, **fields}, Origin=HOME)

    async def to_github(self, to: str = "/") -> str:
        """Begin a login; returns GitHub's address."""
        shown = await self.get(f"/login/github?{urlencode({'to': to})}")
        assert shown.status == 303, shown.text
        return str(shown.headers["Location"])

    async def agree(self, address: str, login: str, *, deny: bool = False) -> str:
        """Answer GitHub's page; returns the path of the callback with its query."""
        async with self.session.get(address) as page:
            asked = forms(await page.text())
        action, fields = asked[1] if deny else asked[0]
        data = {**fields, "login": login}
        async with self.session.post(URL(address).join(URL(action)), data=data, allow_redirects=False) as sent:
            assert sent.status == 302, sent.status
            return sent.headers["Location"].removeprefix(HOME)

    async def log_in(self, login: str = "mona", to: str = "/") -> Shown:
        """Log in; returns the answer to the callback."""
        return await self.get(await self.agree(await self.to_github(to), login))

    async def _send(self, method: str, path: str, fields: dict[str, str] | None, headers: dict[str, str]) -> Shown:
        sent = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        url = URL(f"http://127.0.0.1:{self.world.runner.addresses[0][1]}{path}", encoded=True)
        async with self.session.request(
            method,
            url,
            data=None if fields is None else urlencode(fields),
            headers={
                **_HTML,
                "Host": "imq.test",
                **({} if fields is None else {"Content-Type": "application/x-www-form-urlencoded"}),
                **sent,
                **headers,
            },
            allow_redirects=False,
        ) as answer:
            for name, cookie in answer.cookies.items():
                if cookie["max-age"] == "0" or not cookie.value:
                    self.cookies.pop(name, None)
                else:
                    self.cookies[name] = cookie.value
            return Shown(answer.status, await answer.text(), answer.headers)
