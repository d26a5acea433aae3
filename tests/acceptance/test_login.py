"""Logging in with GitHub, sessions, and attacks on both."""

from datetime import timedelta
from http.cookies import SimpleCookie
from pathlib import Path

import aiohttp
import pytest
from yarl import URL

from github_emulator import Fault
from queue_engine.store.action_records import FIRST
from tests.acceptance.browsing import CALLBACK, HOME, SESSION, SETTINGS, Browser, allow_login
from tests.acceptance.world import World, a_world

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


@pytest.fixture
def mona(site: World, session: aiohttp.ClientSession) -> Browser:
    """A browser."""
    return Browser(site, session)


async def logged_in(browser: Browser) -> bool:
    """Whether IMQ knows who is at the browser."""
    return (await browser.get("/account")).status == 200


async def test_person_logs_in_and_comes_back_to_the_page_they_wanted(mona: Browser) -> None:
    """A page sends them to log in, GitHub says who they are, and IMQ keeps no token of theirs."""
    asked = await mona.get("/account?x=1")
    assert (asked.status, asked.location) == (303, "/login?to=/account%3Fx%3D1")
    page = await mona.get(asked.location)
    assert 'href="/login/github?to=%2Faccount%3Fx%3D1"' in page.text
    back = await mona.log_in(to="/account?x=1")
    assert (back.status, back.location) == (303, "/account?x=1")
    account = await mona.get("/account")
    assert "mona" in account.text
    assert mona.world.server.tokens.users == 0
    again = await mona.get("/login?to=/account")
    assert (again.status, again.location) == (303, "/account")


@pytest.mark.thorough
async def test_github_is_asked_with_state_pkce_and_the_callback(mona: Browser) -> None:
    """The address has no secret."""
    address = URL(await mona.to_github())
    assert address.path == "/login/oauth/authorize"
    query = address.query
    assert (query["redirect_uri"], query["code_challenge_method"]) == (CALLBACK, "S256")
    assert (len(query["code_challenge"]), len(query["state"])) == (43, 43)
    assert query["client_id"] == mona.world.app.client_id
    assert "secret" not in str(address)


@pytest.mark.thorough
async def test_cookies_are_for_this_host_and_no_script(mona: Browser) -> None:
    """Secure, HttpOnly, SameSite=Lax, bound to the host by their name; pages are kept in no cache."""
    login_page = (await mona.get("/login")).text
    back = await mona.log_in()
    cookies: SimpleCookie = SimpleCookie()
    for header in back.headers.getall("Set-Cookie"):
        cookies.load(header)
    cookie = cookies[SESSION]
    assert (cookie["httponly"], cookie["secure"], cookie["samesite"], cookie["path"]) == (True, True, "Lax", "/")
    assert cookie["domain"] == ""
    lasting = {int(each["max-age"]) // 86400 for each in cookies.values()} - {0}
    assert lasting == {30, 180}
    assert all(f"{days} days" in login_page for days in lasting), (
        "the person knows before the login how long each is kept"
    )
    account = await mona.get("/account")
    assert account.headers["Cache-Control"] == "no-store"
    assert account.headers["X-Frame-Options"] == "DENY"


async def test_person_who_denies_reads_why(mona: Browser) -> None:
    """And can try again."""
    back = await mona.get(await mona.agree(await mona.to_github(), "mona", deny=True))
    assert back.status == 403
    assert "not logged in" in back.text
    assert not await logged_in(mona)
    assert (await mona.log_in()).status == 303


async def test_callback_works_once(mona: Browser) -> None:
    """Its address in the history of the browser logs no person in again, nor after a logout."""
    address = await mona.agree(await mona.to_github(), "mona")
    assert (await mona.get(address)).status == 303
    assert (await mona.get(address)).location == "/"
    await mona.press("/account", "/logout")
    assert (await mona.get(address)).status == 403
    assert not await logged_in(mona)


@pytest.mark.thorough
async def test_code_of_another_login_is_refused(mona: Browser, session: aiohttp.ClientSession) -> None:
    """A stolen code is useless: GitHub wants the verifier of the browser that began."""
    stolen = URL(await mona.agree(await mona.to_github(), "mona")).query["code"]
    thief = Browser(mona.world, session)
    state = URL(await thief.to_github()).query["state"]
    assert (await thief.get(f"/auth/callback?code={stolen}&state={state}")).status == 403
    assert not await logged_in(thief)


@pytest.mark.thorough
async def test_login_ends_only_in_the_browser_that_began(mona: Browser, session: aiohttp.ClientSession) -> None:
    """A link does not log a person in as the attacker, with the attacker's code and state."""
    attacker = Browser(mona.world, session)
    link = await attacker.agree(await attacker.to_github(), "hubot")
    assert (await mona.get(link)).status == 403
    assert not await logged_in(mona)
    own = URL(await mona.to_github()).query["state"]
    code = URL(link).query["code"]
    assert (await mona.get(f"/auth/callback?code={code}&state={own}")).status == 403
    assert not await logged_in(mona)


@pytest.mark.thorough
async def test_login_under_way_ends_after_ten_minutes(mona: Browser) -> None:
    """As GitHub's code does."""
    address = await mona.agree(await mona.to_github(), "mona")
    mona.world.clock.set(mona.world.clock.now() + 10 * MINUTE)
    assert (await mona.get(address)).status == 403


@pytest.mark.thorough
async def test_two_tabs_log_in(mona: Browser) -> None:
    """Each finishes what it began."""
    first, second = await mona.to_github("/account?tab=1"), await mona.to_github("/account?tab=2")
    assert (await mona.get(await mona.agree(first, "mona"))).location == "/account?tab=1"
    assert (await mona.get(await mona.agree(second, "mona"))).location == "/account?tab=2"


@pytest.mark.thorough
async def test_login_leads_to_no_other_site(mona: Browser) -> None:
    """Whatever the link says."""
    for to in ("//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example"):
        assert (await mona.log_in(to=to)).location == "/"


@pytest.mark.thorough
async def test_session_that_existed_before_the_login_is_not_used(mona: Browser, session: aiohttp.ClientSession) -> None:
    """An attacker who planted a cookie has no session of the person who logs in."""
    attacker = Browser(mona.world, session)
    await attacker.log_in("hubot")
    planted = attacker.cookies[SESSION]
    mona.cookies[SESSION] = planted
    await mona.log_in("mona")
    assert mona.cookies[SESSION] != planted
    assert not await logged_in(attacker)


@pytest.mark.thorough
async def test_altered_cookie_is_no_session(mona: Browser) -> None:
    """Also one that IMQ signed for another purpose."""
    await mona.log_in()
    await mona.to_github()
    value = mona.cookies[SESSION]
    altered = value[:-1] + ("A" if value[-1] != "A" else "B")
    for each in (altered, value[: len(value) // 2], "imq", "", mona.cookies["__Host-imq_login"]):
        assert not await logged_in(Browser(mona.world, mona.session, {SESSION: each}))
    assert await logged_in(mona)


@pytest.mark.thorough
async def test_logout_ends_the_session_at_once(mona: Browser) -> None:
    """A copy of the cookie is useless afterwards; the person can log in again."""
    await mona.log_in()
    copy = dict(mona.cookies)
    out = await mona.press("/account", "/logout")
    assert (out.status, out.location) == (303, "/login")
    assert SESSION not in mona.cookies
    assert "You are logged out." in (await mona.get("/login")).text
    assert "You are logged out." not in (await mona.get("/login")).text
    mona.cookies = copy
    assert not await logged_in(mona)
    await mona.log_in()
    assert await logged_in(mona)


@pytest.mark.thorough
async def test_logout_everywhere_ends_every_session_of_the_person(
    mona: Browser, session: aiohttp.ClientSession
) -> None:
    """Sessions of other people stay. The audit log has each login, and the logout."""
    phone, other = Browser(mona.world, session), Browser(mona.world, session)
    for browser, login in ((mona, "mona"), (phone, "mona"), (other, "hubot")):
        await browser.log_in(login)
    await mona.press("/account", "/logout/everywhere")
    assert [await logged_in(each) for each in (mona, phone, other)] == [False, False, True]
    async with mona.world.bot.engine.store.reading() as tx:
        done = await tx.actions.page(FIRST, limit=9)
    assert [(each.action, each.by) for each in done] == [
        *(("logged_in", login) for login in ("mona", "mona", "hubot")),
        ("logged_out", "mona"),
    ]
    assert done[-1].data["everywhere"] is True


@pytest.mark.thorough
async def test_forms_are_refused_without_the_sessions_own_token(mona: Browser, session: aiohttp.ClientSession) -> None:
    """A form of another site, without a token, with another session's, or with the one before the logout."""
    other = Browser(mona.world, session)
    await other.log_in("hubot")
    await mona.log_in()
    pages = [(await each.get("/account")).text for each in (mona, other)]
    own, foreign = (text.split('name="csrf" value="')[1].split('"')[0] for text in pages)
    for fields, headers in (
        ({}, {}),
        ({"csrf": ""}, {}),
        ({"csrf": foreign}, {}),
        ({"csrf": own}, {"Origin": "https://evil.example"}),
        ({"csrf": own}, {"Origin": "null"}),
        ({"csrf": own}, {"Origin": HOME, "Sec-Fetch-Site": "cross-site"}),
    ):
        assert (await mona.post("/logout", fields, **headers)).status == 403
    assert await logged_in(mona)
    behind_a_proxy = await mona.post("/logout", {"csrf": own}, Origin=HOME, Host="10.0.0.7:8080")
    assert behind_a_proxy.status == 303
    await mona.log_in()
    assert (await mona.post("/logout", {"csrf": own}, Origin=HOME)).status == 403


async def test_secret_of_a_session_is_replaced_every_hour(mona: Browser) -> None:
    """A request that was sent at the same time still counts; the former cookie does not, a minute later."""
    await mona.log_in()
    before = dict(mona.cookies)
    mona.world.clock.set(mona.world.clock.now() + HOUR)
    assert await logged_in(mona)
    assert mona.cookies[SESSION] != before[SESSION]
    late = Browser(mona.world, mona.session, dict(before))
    assert await logged_in(late)
    assert late.cookies == before
    assert await logged_in(mona)
    mona.world.clock.set(mona.world.clock.now() + 2 * MINUTE)
    assert [await logged_in(each) for each in (mona, Browser(mona.world, mona.session, dict(before)))] == [True, False]


@pytest.mark.thorough
async def test_session_ends_after_a_week_without_use(mona: Browser) -> None:
    """The page asks to log in again."""
    await mona.log_in()
    mona.world.clock.set(mona.world.clock.now() + timedelta(days=7))
    assert not await logged_in(mona)


@pytest.mark.thorough
async def test_login_under_another_name_is_the_same_person(mona: Browser, session: aiohttp.ClientSession) -> None:
    """And who took the old login over is another person: the id counts."""
    await mona.log_in("mona")
    elsewhere = Browser(mona.world, session)
    await elsewhere.log_in("mona")
    users = mona.world.github.state.users
    renamed = users.pop("mona")
    renamed.login = "mona-new"
    users["mona-new"] = renamed
    mona.world.github.create_user("mona")
    thief = Browser(mona.world, session)
    await thief.log_in("mona")
    await mona.log_in("mona-new")
    texts = [(await each.get("/account")).text for each in (mona, thief)]
    assert [f"<dd>{renamed.id}</dd>" in text for text in texts] == [True, False]
    assert "<dd>mona-new</dd>" in (await elsewhere.get("/account")).text, "every session has the present name"


@pytest.mark.thorough
async def test_fault_of_github_is_a_page_that_says_so(mona: Browser) -> None:
    """The person may try again. A refusal to the App itself may pass, too."""
    for status in (502, 403):
        mona.world.server.faults.add(Fault(kind="fail", method="GET", route="GET /app", status=status))
        assert (await mona.get("/login/github?to=/")).status == 503
    assert (await mona.log_in()).status == 303


async def test_wrong_client_secret_is_reported_as_the_operators_fault(mona: Browser) -> None:
    """The page names the remedy."""
    mona.world.app.client_secret = "another"
    back = await mona.log_in()
    assert back.status == 403
    assert "client secret" in back.text


async def test_pages_say_how_to_enable_the_login(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """Each missing setting is named, and nothing fails."""
    async with a_world(tmp_path, ci=False, protect=False) as world:
        browser = Browser(world, session, {SESSION: "x"})
        page = await browser.get("/login")
        assert page.status == 200
        for name in ("IMQ_PUBLIC_URL", "IMQ_SECRET_KEY", "IMQ_GITHUB_CLIENT_SECRET"):
            assert name in page.text
        assert [(await browser.get(path)).status for path in ("/login/github", "/auth/callback?state=x")] == [404, 404]
        assert (await browser.get("/")).location == "/login?to=/"
        assert (await browser.post("/logout", {"csrf": ""})).status == 403


@pytest.mark.thorough
async def test_former_key_keeps_people_logged_in(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """An operator who replaces IMQ_SECRET_KEY names the former one; without that everybody logs in again."""
    async with a_world(tmp_path, settings=SETTINGS, ci=False, protect=False) as world:
        allow_login(world)
        browser = Browser(world, session)
        await browser.log_in()
        for former, expected in ((SETTINGS["IMQ_SECRET_KEY"], True), ("", False)):
            await world.kill()
            new = {"IMQ_SECRET_KEY": "another-key-of-the-pages-4567", "IMQ_FORMER_SECRET_KEY": former}
            world.environment.update(new)
            await world.restart()
            copy = Browser(world, session, dict(browser.cookies))
            assert await logged_in(copy) is expected
