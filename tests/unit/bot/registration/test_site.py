"""The registration as a person goes through it, and everything that somebody else could try."""

import re
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web
from pytest_aiohttp.plugin import AiohttpClient
from structlog.testing import capture_logs
from yarl import URL

from bot.gateway.http.client import Client
from bot.registration.manifest_flow import Offer, RegistrationSite, addresses_of, registration_url
from bot.registration.stored import MemorySecrets
from bot.settings.setting_values import website
from github_emulator import Fault
from over_http.browser_forms import Person
from tests.unit.bot.registration.conftest import Registration


async def test_person_registers_the_app_without_typing_a_secret(registration: Registration) -> None:
    """From the code to the page that installs the App, by forms and buttons alone."""
    async with Person() as person:
        page = await registration.handed_over(person)
        assert page.url.query["state"]
        page = await person.send(page, page.forms[0])
        assert page.status == 200
        assert "in a &lt;safe&gt; place" in page.text
        (credentials,) = registration.saved
        app = registration.github.state.apps[credentials.app_id]
        assert credentials.private_key.get_secret_value() == app.private_key
        assert credentials.webhook_secret.get_secret_value() == app.webhook_secret
        assert page.links == [f"{registration.server.url}/apps/{app.slug}/installations/new"]
        assert (app.webhook_url, app.setup_url) == (
            "https://imq.example.com/webhook",
            "https://imq.example.com/setup/installed",
        )
        assert "administration" not in app.permissions
        assert "repository_ruleset" not in app.events
        assert not list(person.session.cookie_jar), "the browser keeps nothing"


async def test_person_who_is_not_signed_in_comes_back_and_continues(registration: Registration) -> None:
    """GitHub forgets the manifest while the person signs in; the page of IMQ says so, and still works."""
    registration.server.website.signed_in = False
    async with Person() as person:
        opened = await registration.opened(person)
        handed_over = await person.send(opened, opened.forms[0])
        assert f"{registration.server.url}/login" in handed_over.links
        assert "Then come back to this page" in handed_over.text
        login = await person.send(handed_over, handed_over.forms[0])
        assert login.url.path == "/login"
        empty = await person.send(login, login.forms[0])
        assert (empty.url.path, empty.forms[0].fields) == ("/settings/apps/new", [])
        page = await person.send(handed_over, handed_over.forms[0])
        await person.send(page, page.forms[0])
        assert len(registration.saved) == 1


async def test_permissions_stand_in_the_form_with_reason_and_consequence(registration: Registration) -> None:
    """Optional ones can be left out; the others only on GitHub's own pages."""
    async with Person() as person:
        page = await registration.opened(person)
        assert page.forms[0].choices == ["actions", "administration", "issues", "members", "workflows"]
        assert ("permission", "actions") in page.forms[0].fields
        assert ("permission", "administration") not in page.forms[0].fields
        assert "Without it: Pull requests that change .github/workflows wait" in page.text
        assert "pull_requests: write" in page.text
        chosen = [*page.forms[0].filled(organization="guild", name="Our queue"), ("permission", "workflows")]
        page = await person.send(page, page.forms[0], chosen)
        assert page.forms[0].action.startswith(
            f"{registration.server.url}/organizations/guild/settings/apps/new?state="
        )
        assert '"workflows": "write"' in dict(page.forms[0].fields)["manifest"]


async def test_pages_load_nothing_and_are_not_kept(registration: Registration) -> None:
    """No script, no third party, no frame; forms go to IMQ, and in one step to GitHub."""
    async with Person() as person:
        page = await registration.opened(person)
        policy = page.headers["Content-Security-Policy"]
        assert policy.startswith("default-src 'none'; style-src 'self'; ")
        assert "form-action 'self'; base-uri 'none'; frame-ancestors 'none'" in policy
        assert page.headers["Cache-Control"] == "no-store"
        assert "<script" not in page.text
        page = await person.send(page, page.forms[0])
        assert f"form-action 'self' {registration.server.url};" in page.headers["Content-Security-Policy"]


async def test_code_opens_the_pages_once(registration: Registration) -> None:
    """Another browser needs the next code, which is announced."""
    code = await registration.one_time.code()
    async with Person() as person, Person() as other:
        await registration.opened(person)
        assert registration.announced == [await registration.one_time.code()] != [code]
        page = await other.open(f"{registration.url}/setup?code={code}")
        page = await other.send(page, page.forms[0])
        assert page.status == 403
        assert "This is not the code" in page.text
        page = await other.send(page, page.forms[0], [("code", registration.announced[0].lower().replace("-", " "))])
        assert page.url.path == "/setup"
        assert page.forms[0].action == "/setup/manifest"


async def test_page_without_the_code_has_no_manifest(registration: Registration) -> None:
    """A stranger who knows the addresses gets the first page."""
    async with Person() as stranger:
        page = await stranger.open(f"{registration.url}/setup")
        forged = await stranger.session.post(f"{registration.url}/setup/manifest", data={"name": "Mine"})
        assert forged.url.path == "/setup"
        assert page.forms[0].action == "/setup/code"


async def test_access_to_the_pages_ends_after_an_hour(registration: Registration) -> None:
    """A browser that was left open does not stay a way in."""
    async with Person() as person:
        await registration.opened(person)
        registration.clock.instant += timedelta(hours=1)
        page = await person.open(f"{registration.url}/setup")
        assert page.forms[0].action == "/setup/code"


async def test_registration_of_another_browser_is_refused(registration: Registration) -> None:
    """An attacker cannot have IMQ take the attacker's App: the state belongs to the browser that began."""
    async with Person() as attacker, Person() as person:
        await registration.handed_over(person)
        page = await registration.handed_over(attacker)
        async with attacker.session.post(
            page.url.join(URL(page.forms[0].action)), data=page.forms[0].fields, allow_redirects=False
        ) as answer:
            back = URL(answer.headers["Location"])
        refused = await person.open(back)
        assert (refused.status, registration.saved) == (403, [])
        changed = await attacker.open(back.update_query(state="x"))
        assert (changed.status, registration.saved) == (403, [])


async def test_state_is_used_once(registration: Registration) -> None:
    """The address in the history of the browser registers nothing a second time."""
    async with Person() as person:
        page = await registration.handed_over(person)
        cookie = next(each for each in person.session.cookie_jar if each.key == "imq_setup_state").value
        async with person.session.post(
            page.url.join(URL(page.forms[0].action)), data=page.forms[0].fields, allow_redirects=False
        ) as answer:
            back = URL(answer.headers["Location"])
        assert (await person.open(back)).status == 200
        person.session.cookie_jar.update_cookies({"imq_setup_state": cookie}, URL(registration.url))
        assert (await person.open(back)).status == 403
        assert len(registration.saved) == 1


async def test_newer_registration_replaces_an_older_one() -> None:
    """Two tabs: the one that was sent last counts."""
    one_time = MemorySecrets()
    await one_time.begin("first")
    await one_time.begin("second")
    assert not await one_time.finish("first")
    assert await one_time.finish("second")
    assert not await one_time.finish("second")


async def test_registration_goes_on_when_github_answers_again(registration: Registration) -> None:
    """The code lives for an hour: the person tries again, and registers no second App."""
    async with Person() as person:
        page = await registration.handed_over(person)
        registration.server.faults.add(Fault("fail", route="/app-manifests/{code}/conversions", status=502))
        page = await person.send(page, page.forms[0])
        assert (page.status, registration.saved) == (502, [])
        page = await person.open(page.url.join(URL(page.links[0], encoded=True)))
        assert page.status == 200
        assert len(registration.saved) == 1


async def test_code_of_a_registration_that_github_does_not_know_is_reported(registration: Registration) -> None:
    """It was used, or an hour has passed."""
    async with Person() as person:
        page = await registration.handed_over(person)
        state = page.url.query["state"]
        page = await person.open(f"{registration.url}/setup/callback?code=unknown&state={state}")
        assert page.status == 400
        assert "works once, and for an hour" in page.text
        assert page.links == ["/setup"]


@pytest.mark.parametrize(
    ("api_url", "site"),
    [
        ("https://api.github.com", "https://github.com"),
        ("https://api.acme.ghe.com", "https://acme.ghe.com"),
        ("https://ghe.example.com/api/v3", "https://ghe.example.com"),
        ("https://api.example.com/api/v3", "https://api.example.com"),
        ("http://127.0.0.1:8090", "http://127.0.0.1:8090"),
    ],
)
def test_website_is_found_beside_the_api(api_url: str, site: str) -> None:
    """For github.com, its subdomains with data residency, Enterprise Server, and the emulator."""
    assert website(api_url) == site
    assert registration_url(api_url, "", "s&t") == f"{site}/settings/apps/new?state=s%26t"
    assert registration_url(api_url, "a/b", "s") == f"{site}/organizations/a%2Fb/settings/apps/new?state=s"


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"code=%FF", {}, 400),
        (b"\xff=1", {}, 400),
        (b"a=1&" * 1001, {}, 413),
        (b"code=" + b"x" * 2**16, {}, 413),
        (b"code=1", {"Content-Type": "multipart/form-data; boundary=x"}, 415),
        (b"code=1", {"Content-Type": "application/x-www-form-urlencoded; charset=utf-7"}, 415),
        (b"code=1", {"Content-Encoding": "gzip"}, 415),
        (b"code=1", {"Origin": "https://evil.example"}, 403),
        (b"code=1", {"Sec-Fetch-Site": "cross-site"}, 403),
        (b"code=1", {}, 403),
    ],
)
async def test_form_that_no_page_of_imq_sends_is_refused_without_a_traceback(
    registration: Registration, body: bytes, headers: dict[str, str], status: int
) -> None:
    """The page that everybody may open reads forms by the rules of all others."""
    given = {"Content-Type": "application/x-www-form-urlencoded", **headers}
    with capture_logs() as lines:
        for step in ("code", "manifest"):
            async with aiohttp.ClientSession() as session:
                answer = await session.post(
                    f"{registration.url}/setup/{step}", data=body, headers=given, allow_redirects=False
                )
                assert answer.status == (303 if status == 403 and not headers and step == "manifest" else status)
                shown = re.search(r'role="status">([^<]*)<', await answer.text())
                assert answer.status == 303 or shown is None or re.fullmatch(r"[A-Z].*\.", shown[1])
                assert shown is not None or not headers
    assert not [line for line in lines if line["log_level"] == "error"]


async def test_page_behind_a_proxy_takes_its_own_form_and_keeps_its_cookie_for_this_host(
    registration: Registration, aiohttp_client: AiohttpClient
) -> None:
    """The proxy may hide the public address; a subdomain can neither set the cookie nor read it over http."""
    async with aiohttp.ClientSession() as session:
        site = RegistrationSite(
            Offer(addresses_of("https://imq.example.com"), registration.server.url),
            client=Client(session, api_url=registration.server.url, clock=registration.clock),
            clock=registration.clock,
            one_time=registration.one_time,
            key=b"k" * 32,
            save=registration.save,
            announce=registration.announced.append,
        )
        application = web.Application()
        application.add_routes(site.routes())
        browser = await aiohttp_client(application)
        code, own = {"code": await registration.one_time.code()}, {"Origin": "https://imq.example.com"}
        answer = await browser.post("/setup/code", data=code, headers=own, allow_redirects=False)
    assert answer.status == 303
    cookie = answer.headers["Set-Cookie"]
    assert cookie.startswith("__Host-imq_setup=")
    assert "; Secure" in cookie


async def test_wrong_codes_are_logged_once_a_minute(registration: Registration) -> None:
    """300 wrong codes of a stranger wrote 300 lines."""
    with capture_logs() as lines:
        async with aiohttp.ClientSession() as session:
            for _ in range(5):
                answer = await session.post(f"{registration.url}/setup/code", data={"code": "wrong"})
                assert answer.status == 403
            registration.clock.instant += timedelta(minutes=1)
            await session.post(f"{registration.url}/setup/code", data={"code": "wrong"})
    assert [line["repeats"] for line in lines if line["event"] == "setup_code_refused"] == [0, 4]


async def test_cookie_of_one_step_opens_no_other(registration: Registration) -> None:
    """The state of a registration, which GitHub's website sees as well, does not open the pages."""
    async with Person() as person:
        await registration.handed_over(person)
        state = next(each for each in person.session.cookie_jar if each.key == "imq_setup_state").value
    async with Person() as other:
        other.session.cookie_jar.update_cookies({"imq_setup": state}, URL(registration.url))
        page = await other.open(f"{registration.url}/setup")
        assert page.forms[0].action == "/setup/code"
