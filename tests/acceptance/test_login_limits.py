"""Limits of logins: each client has a share, so that strangers keep no other person from logging in."""

from datetime import timedelta

import aiohttp
import pytest
from pydantic import SecretStr
from yarl import URL

from bot.api.device_login import BEGUN_PER_ADDRESS, SENT_PER_ADDRESS
from bot.gateway.device_flow import DeviceFlow, Wait
from bot.web.login.attempts import OF_CLIENT_A_MINUTE, OF_STRANGERS_AN_HOUR
from queue_engine.domain.facts import Actor
from tests.acceptance.browsing import Browser
from tests.acceptance.callers import Caller
from tests.acceptance.world import World

BEGIN, FINISH = "/api/v1/login/device", "/api/v1/login/device/token"


async def guess(browser: Browser, address: str) -> int:
    """Finish a login with a made-up code, as a client at this address does through a proxy."""
    state = URL(await browser.to_github()).query["state"]
    return (await browser.get(f"/auth/callback?code=guess&state={state}", **{"X-Forwarded-For": address})).status


async def test_made_up_codes_of_one_address_keep_no_other_from_logging_in(
    site: World, session: aiohttp.ClientSession
) -> None:
    """The address has its own share, whatever it claims to be."""
    mona, thief = Browser(site, session), Browser(site, session)
    answers = [await guess(thief, f"198.51.100.{number}, 203.0.113.9") for number in range(OF_CLIENT_A_MINUTE + 2)]
    assert answers == [403] * OF_CLIENT_A_MINUTE + [429] * 2
    assert await guess(Browser(site, session), "203.0.113.10") == 403
    address = await mona.agree(await mona.to_github(), "mona")
    assert (await mona.get(address, **{"X-Forwarded-For": "203.0.113.10"})).status == 303


@pytest.mark.thorough
async def test_strangers_of_many_addresses_keep_no_known_browser_from_logging_in(
    site: World, session: aiohttp.ClientSession
) -> None:
    """A browser in which its person logged in before has a share that strangers cannot use."""
    mona = Browser(site, session)
    await mona.log_in()
    await mona.press("/account", "/logout")
    thief, limited = Browser(site, session), 0
    for number in range(OF_STRANGERS_AN_HOUR):
        limited += await guess(thief, f"2001:db8:{number // 10:x}::{number:x}") == 429
    assert limited == 1
    assert await guess(Browser(site, session), "203.0.113.10") == 429
    assert (await mona.log_in()).status == 303


async def test_stranger_begins_only_so_many_logins(world: World, session: aiohttp.ClientSession) -> None:
    """Beyond that IMQ answers 429 and asks GitHub nothing; another address has its own share."""
    world.app.device_flow = True
    stranger, other = (Caller(world, session, None, address) for address in ("203.0.113.9", "203.0.113.10"))
    for _ in range(BEGUN_PER_ADDRESS):
        assert (await stranger.ask("POST", BEGIN)).status == 200
    answer = await stranger.ask("POST", BEGIN)
    assert (answer.status, len(world.github.state.device_codes)) == (429, BEGUN_PER_ADDRESS)
    assert 0 < int(answer.headers["Retry-After"]) <= 60
    assert (await other.ask("POST", BEGIN)).status == 200
    world.clock.set(world.clock.now() + timedelta(minutes=1))
    assert (await stranger.ask("POST", BEGIN)).status == 200


@pytest.mark.thorough
async def test_questions_of_command_lines_leave_githubs_limit_to_the_pages(
    world: World, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An address causes so many requests an hour at most, however many logins it began."""
    world.app.device_flow = True
    sent, outcome = 0, DeviceFlow.outcome

    async def counted(flow: DeviceFlow, device_code: SecretStr) -> Actor | Wait:
        nonlocal sent
        sent += 1
        return await outcome(flow, device_code)

    monkeypatch.setattr(DeviceFlow, "outcome", counted)
    stranger, statuses = Caller(world, session, None, "203.0.113.9"), set()
    for _ in range(SENT_PER_ADDRESS // 20 + 1):
        login = (await stranger.ask("POST", BEGIN)).body
        for _ in range(20):
            statuses.add((await stranger.ask("POST", FINISH, body={"id": login["id"]})).status)
            world.clock.set(world.clock.now() + timedelta(seconds=5))
    assert (statuses, sent) == ({202, 429}, SENT_PER_ADDRESS)
