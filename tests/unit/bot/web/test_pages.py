"""The frame of all pages: headers, errors, files, forms."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer
from jinja2 import UndefinedError

from bot.api.api_errors import ApiError
from bot.settings.private_key import derive_secret
from bot.web.addresses import login_url, own_path
from bot.web.login.session_cookies import ANONYMOUS, Viewer, viewer
from bot.web.pages import wording
from bot.web.pages.render import duration, environment
from bot.web.pages.site import Pages, Site, add_pages, get, post
from bot.web.pages.static_files import static_url
from github_emulator import ManualClock
from queue_engine.domain.errors import Unavailable
from queue_engine.queries.pull_request_history import RunRecord
from queue_engine.store.tokens import TokenPolicy

HTML = {"Accept": "text/html,application/xhtml+xml"}
MONA = Viewer(replace(ANONYMOUS.token, grant=TokenPolicy(login="mona", person_id=7)), csrf="her secret")


class Examples(Pages):
    """Pages that answer as the tests need."""

    @get("/example/{what}")
    @post("/example/{what}")
    async def _show(self, request: web.Request) -> web.Response:
        match request.match_info["what"]:
            case "hidden":
                raise ApiError(404, "this repository is operation dusk")
            case "refused":
                raise ApiError(403, "you may not pause this queue")
            case "outage":
                raise Unavailable("connection to 10.0.0.7 refused")
            case "broken":
                raise RuntimeError("the password is hunter2")
            case "entrance":
                self._site.entrance(request)
        name = request.query.get("title", viewer(request).login)
        return await self._site.render(request, "error.html", title=name, sentence="<b>bold</b>")


@dataclass
class Browser:
    """Somebody at the pages."""

    client: TestClient[web.Request, web.Application]
    person: Viewer = ANONYMOUS

    async def get(self, path: str, **headers: str) -> tuple[ClientResponse, str]:
        response = await self.client.get(path, headers=HTML | headers, allow_redirects=False)
        return response, await response.text()

    async def post(self, path: str, fields: dict[str, str], **headers: str) -> int:
        response = await self.client.post(path, data=fields, headers=HTML | headers, allow_redirects=False)
        return response.status


async def _healthy(_request: web.Request) -> web.Response:
    return web.json_response({})


@pytest.fixture
async def browser() -> AsyncIterator[Browser]:
    """A browser at an application with example pages, and one route for programs."""
    engine = cast(Any, SimpleNamespace(clock=ManualClock()))
    app = web.Application()

    async def identify(_request: web.Request) -> Viewer:
        return found.person

    site = Site(engine, cast(Any, None), github="https://github.com", identify=identify)
    app.router.add_get("/healthz", _healthy)
    add_pages(app, site, [Examples(site)])
    async with TestClient(TestServer(app)) as client:
        found = Browser(client)
        yield found


async def test_pages_carry_headers_that_keep_other_sites_out(browser: Browser) -> None:
    """No frame, no script from elsewhere, no cache, no address of a private page sent to others; programs' answers
    stay as they are."""
    browser.person = MONA
    for path in ("/example/page", "/example/hidden", "/example/broken", "/no/such/page"):
        response, _ = await browser.get(path)
        policy = response.headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "unsafe" not in policy
        assert response.headers["X-Frame-Options"] == "DENY"
        assert response.headers["X-Content-Type-Options"] == "nosniff"
        assert response.headers["Referrer-Policy"] == "same-origin"
        assert response.headers["Cache-Control"] == "no-store"
    health = await browser.client.get("/healthz")
    assert "Content-Security-Policy" not in health.headers


async def test_templates_escape_every_value_and_refuse_unknown_names(browser: Browser) -> None:
    """Markup in a title is text; a typing error in a template does not show as an empty place."""
    browser.person = MONA
    _, text = await browser.get("/example/page?title=%3Cscript%3Ealert(1)%3C/script%3E")
    assert "<script>" not in text
    assert "&lt;b&gt;bold&lt;/b&gt;" in text
    with pytest.raises(UndefinedError):
        environment().from_string("{{ unknown }}").render()


async def test_errors_are_pages_without_details(browser: Browser) -> None:
    """A hidden page answers as a missing one, and an unexpected error shows nothing of itself."""
    browser.person = MONA
    hidden, of_hidden = await browser.get("/example/hidden")
    missing, of_missing = await browser.get("/no/such/page")
    assert (hidden.status, missing.status) == (404, 404)
    assert of_hidden.replace("/example/hidden", "") == of_missing.replace("/no/such/page", "")
    for path, status, word in (
        ("refused", 403, "You may not pause this queue."),
        ("outage", 503, "GitHub is failing; try again later."),
        ("broken", 500, "IMQ failed to show this page."),
    ):
        response, text = await browser.get(f"/example/{path}")
        assert (response.status, response.content_type) == (status, "text/html")
        assert word in text
        assert not [each for each in ("dusk", "10.0.0.7", "hunter2", "Traceback") if each in text]


async def test_programs_keep_json_for_unknown_addresses(browser: Browser) -> None:
    """Only who accepts HTML gets a page, and never below the addresses of programs."""
    as_program = await browser.client.get("/nothing")
    below, _ = await browser.get("/api/v1/nothing")
    assert (as_program.content_type, below.content_type) == ("text/plain", "text/plain")


async def test_person_without_login_is_sent_to_log_in(browser: Browser) -> None:
    """Whether a page exists, is hidden or refused: the answer is the same, and leads back afterwards."""
    for path in ("/example/hidden?at=1", "/example/refused", "/example/entrance"):
        response, text = await browser.get(path)
        assert (response.status, text) == (303, "")
        assert response.headers["Location"] == login_url(path)


async def test_forms_need_the_secret_of_the_session(browser: Browser) -> None:
    """A form without it, with another session's, with none of a person who is not logged in, or not as a form."""
    assert await browser.post("/example/page", {"csrf": ""}) == 403
    browser.person = MONA
    assert await browser.post("/example/page", {"csrf": MONA.csrf}) == 200
    assert await browser.post("/example/page", {}) == 403
    assert await browser.post("/example/page", {"csrf": "another's"}) == 403
    as_json = await browser.client.post("/example/page", json={"csrf": MONA.csrf})
    assert as_json.status == 415
    assert await browser.post("/example/page", {"csrf": MONA.csrf, "more": "x" * 70_000}) == 413


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
        {"Origin": "http://["},
    ],
)
async def test_forms_of_other_sites_are_refused(browser: Browser, headers: dict[str, str]) -> None:
    """Also with the right secret."""
    browser.person = MONA
    assert await browser.post("/example/page", {"csrf": MONA.csrf}, **headers) == 403


async def test_static_files_are_kept_only_under_the_hash_of_their_content(browser: Browser) -> None:
    """A browser keeps the file of this version for good, and asks again about any other."""
    address = static_url("imq.css")
    present, text = await browser.get(address)
    assert present.headers["Cache-Control"] == "public, max-age=31536000, immutable"
    assert ":focus-visible" in text
    older, _ = await browser.get("/static/imq.css?v=0")
    assert older.headers["Cache-Control"] == "public, no-cache"
    again, _ = await browser.get("/static/imq.css", **{"If-None-Match": older.headers["ETag"]})
    assert again.status == 304
    for path in ("/static/nothing.css", "/static/..%2fsite.py", "/static/imq.py"):
        assert (await browser.get(path))[0].status == 404


def test_no_address_leads_elsewhere() -> None:
    """What browsers read as another host, or drop from an address, leads to the first page."""
    for to in [
        "//evil.example",
        "/\\evil.example",
        "/\t/evil.example",
        "/\n//evil.example",
        "https://evil.example",
        "javascript:alert(1)",
        "///evil.example",
        "evil",
        "",
        "/a\x00b",
        "/\u0085/evil",
        "/\ufffd",
        f"/{'a' * 3000}",
    ]:
        assert own_path(to) == "/", to


def test_own_addresses_are_kept() -> None:
    """With their query, and quoted once."""
    assert own_path("/repositories/acme/w/branches/a%2Fb?at=1") == "/repositories/acme/w/branches/a%2Fb?at=1"
    assert login_url("/requests?a=b&c=d") == "/login?to=/requests%3Fa%3Db%26c%3Dd"


def test_durations_have_their_two_largest_units() -> None:
    """Seconds beside minutes would change with each look."""
    given = (0, 45, 60, 754, 3600, 7500, 90_000, 3 * 86400 + 3700, -90)
    shown = ["0 s", "45 s", "1 min", "12 min", "1 h", "2 h 5 min", "1 d 1 h", "3 d 1 h", "-1 min"]
    assert [duration(each) for each in given] == shown
    assert duration(timedelta(minutes=5)) == "5 min"


def test_filters_format_instants() -> None:
    """By distance from the page's now, and exactly."""
    now = datetime(2026, 11, 23, 15, 55, tzinfo=UTC)
    template = environment().from_string(
        "{{ at|ago }}, {{ later|ago }}, {{ now|ago }}, {{ at|instant }}, {{ 'a/b'|url }}"
    )
    given = template.render(now=now, at=now - timedelta(minutes=5), later=now + timedelta(hours=2))
    assert given == "5 min ago, in 2 h, now, 2026-11-23 15:50 UTC, a%2Fb"


def test_clock_says_the_day_only_where_it_is_another() -> None:
    """People read 15:42 at a glance; an instant of another day has its name, or its date."""
    now = datetime(2026, 11, 23, 15, 55, tzinfo=UTC)
    template = environment().from_string("{{ at|clock }}")
    days = [template.render(now=now, at=now + timedelta(days=each)) for each in (0, 1, -5, 6, -30)]
    assert days == ["15:55", "Tue 15:55", "Wed 15:55", "29 Nov 15:55", "24 Oct 15:55"]


def test_code_of_a_text_is_between_two_backticks_and_markup_in_it_is_text() -> None:
    """A detail may have any text of others."""
    template = environment().from_string("{{ given|coded }}")
    assert template.render(given="use `<b>`, not `i`") == "use <code>&lt;b&gt;</code>, not <code>i</code>"
    assert template.render(given="one ` and <b>") == "one ` and &lt;b&gt;"


async def test_missing_page_says_who_you_are_and_offers_the_login(browser: Browser) -> None:
    """Often another account may see it."""
    _, stranger = await browser.get("/no/such/page")
    assert "You are not logged in." in stranger
    assert 'href="/login?to=/no/such/page"' in stranger
    browser.person = MONA
    _, hers = await browser.get("/no/such/page")
    assert "You are logged in as <strong>mona</strong>" in hers
    assert 'action="/logout"' in hers


def test_keys_for_two_purposes_differ() -> None:
    """A person who learns one key does not know the other."""
    assert derive_secret("secret", "one") != derive_secret("secret", "two")


def test_test_of_a_train_says_why_its_run_ended() -> None:
    """Without a run's outcome the words are those of the event."""
    at = datetime(2026, 1, 5, 9, tzinfo=UTC)
    test = RunRecord("6e26da5", at, at, "pending", None, ())
    assert wording.result_text(test) == "ended, and not landed"
    assert wording.result_text(replace(test, outcome="failed")) == "its checks failed"
    assert wording.result_text(replace(test, outcome="failed", preempted=True)) == "preempted by another pull request"
