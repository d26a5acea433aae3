"""Attacks of people who may log in, and of those who never do: on logins, sessions, forms and what is public."""

import asyncio
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from structlog.testing import capture_logs

from queue_engine.domain.model import TimelineEvent
from queue_engine.store.sessions import MOST
from tests.acceptance.browsing import HOME, SETTINGS, Browser, allow_login
from tests.acceptance.failed_requests import dead_label
from tests.acceptance.project import FILES
from tests.acceptance.streams import reading, reading_at
from tests.acceptance.test_event_streams import until_sent
from tests.acceptance.world import LABEL, World, a_world
from tests.support.real_time import LIMIT

FORM = "application/x-www-form-urlencoded"


async def send(browser: Browser, body: bytes, content_type: str) -> int:
    """Send bytes as a form; returns the status."""
    port = browser.world.runner.addresses[0][1]
    headers = {
        "Host": "imq.test",
        "Content-Type": content_type,
        "Origin": HOME,
        "Cookie": "; ".join(f"{name}={value}" for name, value in browser.cookies.items()),
    }
    async with browser.session.post(f"http://127.0.0.1:{port}/logout", data=body, headers=headers) as answer:
        return answer.status


@pytest.mark.thorough
async def test_form_that_cannot_be_read_is_refused_and_no_fault_of_imq(
    site: World, session: aiohttp.ClientSession
) -> None:
    """No traceback is logged for an unknown encoding, for bytes that are no text, or for thousands of fields."""
    anonymous, mona = Browser(site, session), Browser(site, session)
    await mona.log_in()
    for body, content_type, status in (
        (b"csrf=x", f"{FORM}; charset=no-such", 415),
        (b"csrf=x", f"{FORM}; charset=utf-16", 415),
        (b"csrf=x", f"{FORM}; charset=base64", 415),
        (b"csrf=\xff", FORM, 400),
        (b"&".join(b"a=%d" % number for number in range(9000)), FORM, 413),
    ):
        assert await send(mona, body, content_type) == status
        assert await send(anonymous, body, content_type) == (415 if status == 415 else 403)
    assert (await mona.get("/account")).status == 200


@pytest.mark.thorough
async def test_form_of_no_session_is_refused_before_it_arrives(site: World) -> None:
    """A stranger who announces a form and never sends it is answered, and holds nothing."""
    reader, writer = await asyncio.open_connection("127.0.0.1", site.runner.addresses[0][1])
    announced = ("POST /logout HTTP/1.1", "Host: imq.test", f"Content-Type: {FORM}", "Content-Length: 60000")
    writer.write("\r\n".join([*announced, "", ""]).encode())
    async with asyncio.timeout(LIMIT):
        assert b" 403 " in await reader.readline()
    writer.close()


async def test_long_links_do_not_keep_a_person_from_logging_in(site: World, session: aiohttp.ClientSession) -> None:
    """Another site sends a browser through logins with long targets: browsers refuse a longer cookie."""
    mona = Browser(site, session)
    for length in (1990, 700):
        await mona.to_github("/" + "a" * length)
    assert (await mona.log_in(to="/account")).location == "/account"


async def test_person_has_a_bounded_number_of_sessions(site: World, session: aiohttp.ClientSession) -> None:
    """Everybody with an account on GitHub may log in; the sessions used longest ago end."""
    browsers = [Browser(site, session) for _ in range(MOST + 2)]
    other = Browser(site, session)
    await other.log_in("hubot")
    for browser in browsers:
        site.clock.set(site.clock.now() + timedelta(seconds=5))
        await browser.log_in()
    alive = [(await browser.get("/account")).status == 200 for browser in browsers]
    assert alive == [False] * 2 + [True] * MOST
    assert (await other.get("/account")).status == 200


@pytest.mark.thorough
async def test_private_repository_is_not_public_because_github_lags(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """A replica of GitHub shows the state before the change: its answer counts for seconds, not for minutes."""
    settings = {**SETTINGS, "IMQ_PUBLIC_PAGES": "1"}
    async with a_world(tmp_path, settings=settings) as world:
        public: Any = world.github.create_repository("acme/open", files=FILES, private=False)
        pull = public.open_pull_request("Seen", head="seen", by="acme", files={"seen.py": "x\n"})
        pull.label(LABEL, by="acme")
        await world.pass_time(timedelta(seconds=30))
        anonymous = Browser(world, session)

        async def shown() -> bool:
            return "acme/open" in (await anonymous.get("/")).text

        assert await shown()
        world.server.lag.set(timedelta(seconds=10))
        public.set_private(True, by="acme")
        await world.pass_time(timedelta(seconds=2))
        lagging = await shown()
        world.clock.set(world.clock.now() + timedelta(seconds=31))
        assert (lagging, await shown()) == (True, False)


async def test_open_stream_has_no_event_of_a_repository_that_became_private(tmp_path: Path) -> None:
    """A person who is not logged in opened it while the repository was public: the webhook counts at the next event."""
    async with a_world(tmp_path, settings={**SETTINGS, "IMQ_PUBLIC_PAGES": "1"}) as world:
        public: Any = world.github.create_repository("acme/open", files=FILES, private=False)
        pull = public.open_pull_request("Seen", head="seen", by="acme", files={"seen.py": "x\n"})
        await world.settle()
        pull.label(LABEL, by="acme")
        await world.settle()
        async with (
            reading(world, None, "/events") as every,
            reading(world, None, "/events?repository=acme/open") as one,
        ):
            await append(world, public.record.id, "first")
            assert [(await each.next()).data["event"] for each in (every, one)] == ["first"] * 2
            public.set_private(True, by="acme")
            await world.settle()
            await append(world, public.record.id, "second")
            assert (await one.next("end", "message")).kind == "end"
            assert [(await every.next("message", "mark")).kind for _ in range(2)] == ["mark"] * 2


async def test_stream_ends_with_the_session_that_opened_it(site: World, session: aiohttp.ClientSession) -> None:
    """Within a minute after the logout, in whichever browser that was."""
    mona = Browser(site, session)
    await mona.log_in()
    cookies = "; ".join(f"{name}={value}" for name, value in mona.cookies.items())
    address = f"http://127.0.0.1:{site.runner.addresses[0][1]}/events"
    async with reading_at(address, {"Host": "imq.test", "Cookie": cookies}) as stream:
        await mona.press("/account", "/logout/everywhere")
        assert "log in" in (await until_sent(site, stream)).data


async def test_account_of_a_machine_cannot_log_in(site: World, session: aiohttp.ClientSession) -> None:
    """Rights in IMQ belong to people."""
    site.github.state.users["hubot"].kind = "Bot"
    hubot = Browser(site, session)
    refused = await hubot.log_in("hubot")
    assert (refused.status, "Only people can log in." in refused.text) == (403, True)
    assert (await hubot.get("/account")).status == 303


async def append(world: World, repository_id: int, event: str) -> None:
    """Append an event as a process does, and pass it on."""
    async with world.bot.engine.change() as change:
        await change.tx.timeline.append(TimelineEvent(change.now, event, repository_id, "main", 1))
    await world.bot.feed.run_due()


async def test_next_owner_of_an_operators_login_is_no_operator(tmp_path: Path, session: aiohttp.ClientSession) -> None:
    """The operator gave the login up: neither account is an operator then, until the settings name one."""
    async with a_world(tmp_path, settings={**SETTINGS, "IMQ_OPERATORS": "Rhea"}, ci=False, protect=False) as world:
        allow_login(world)
        rhea, thief = Browser(world, session), Browser(world, session)

        async def is_operator(browser: Browser) -> bool:
            return "you see every repository" in (await browser.get("/account")).text

        await rhea.log_in("rhea")
        assert await is_operator(rhea)
        users = world.github.state.users
        person = users.pop("rhea")
        person.login = "rhea-new"
        users["rhea-new"] = person
        world.github.create_user("rhea")
        await thief.log_in("rhea")
        assert not await is_operator(thief)
        await rhea.log_in("rhea-new")
        assert [await is_operator(each) for each in (rhea, thief)] == [False, False]


async def test_reader_without_a_session_reads_no_error_of_a_public_repository(
    tmp_path: Path, session: aiohttp.ClientSession
) -> None:
    """An error may quote GitHub's answer, or a person's input; the state of the request is public."""
    async with a_world(tmp_path, settings={**SETTINGS, "IMQ_PUBLIC_PAGES": "1"}) as world:
        world.unsettled = "a dead letter waits for an operator"
        world.repository.set_private(False, by="acme")
        await world.settle()
        request = await dead_label(world, 1)
        browser = Browser(world, session)
        page = await browser.get("/requests")
        assert (page.status, request in page.text, "403 for" in page.text) == (200, True, False)
        status = await browser.get(f"/requests/{request}/status")
        assert "Log in to read the error." in status.text


@pytest.mark.thorough
async def test_strangers_do_not_fill_the_log(site: World, session: aiohttp.ClientSession) -> None:
    """Callbacks of logins that never began are logged once a minute."""
    stranger = Browser(site, session)
    with capture_logs() as logs:
        for _ in range(5):
            assert (await stranger.get("/auth/callback?code=a&state=b")).status == 403
        await site.github.advance(timedelta(minutes=1))
        assert (await stranger.get("/auth/callback?code=a&state=b")).status == 403
    assert [each["event"] for each in logs].count("login_not_begun_here") == 2
