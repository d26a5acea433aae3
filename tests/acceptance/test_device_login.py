"""Logging in from a command line by GitHub's device flow, and the attacks on it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.api.device_login import MOST_LOGINS, VALID_FOR, DeviceLogin, LoginIds
from bot.gateway.device_flow import DeviceFlow
from github_emulator import Fault, KeyPair
from queue_engine.domain.facts import Actor, Permission
from tests.acceptance.callers import Answer, Caller, caller
from tests.acceptance.world import REPOSITORY, World
from tests.support.device_page import type_code

BEGIN, FINISH, LOGIN = "/api/v1/login/device", "/api/v1/login/device/token", "/api/v1/login"
QUEUES = f"/api/v1/repositories/{REPOSITORY}/queues"
PAUSE = f"/api/v1/repositories/{REPOSITORY}/branches/main/pause"


@dataclass
class Device:
    """A command line at IMQ, and its person at GitHub."""

    world: World
    session: aiohttp.ClientSession

    @property
    def stranger(self) -> Caller:
        return Caller(self.world, self.session, None)

    async def begin(self, **asked: str) -> Any:
        answer = await self.stranger.ask("POST", BEGIN, body=asked or None)
        assert answer.status == 200, answer.body
        return answer.body

    async def finish(self, login: Any) -> Answer:
        return await self.stranger.ask("POST", FINISH, body={"id": login["id"]})

    async def authorize(self, login: Any, person: str = "mona", *, cancel: bool = False) -> str:
        return await type_code(
            self.session, login["verification_uri"], login["user_code"], person=person, cancel=cancel
        )

    async def logged_in(self, person: str = "mona", **asked: str) -> Caller:
        login = await self.begin(**asked)
        await self.authorize(login, person)
        answer = await self.finish(login)
        assert answer.status == 200, answer.body
        return Caller(self.world, self.session, answer.body["token"])

    def wait(self, seconds: float) -> None:
        self.world.clock.set(self.world.clock.now() + timedelta(seconds=seconds))


def _client_id(world: World) -> Callable[[], Awaitable[str]]:
    async def client_id() -> str:
        return str(world.app.client_id)

    return client_id


@pytest.fixture
def device(world: World, session: aiohttp.ClientSession) -> Device:
    world.app.device_flow = True
    return Device(world, session)


async def names(world: World) -> list[str]:
    async with world.bot.engine.store.reading() as tx:
        return [token.name for token in await tx.tokens.all()]


@pytest.mark.thorough
async def test_person_who_types_the_code_gets_a_token_of_their_own(world: World, device: Device) -> None:
    """The token queues in their name, controls no queue, is listed, and ends after 30 days."""
    login = await device.begin()
    assert (login["interval"], login["expires_in"], login["access"]) == (5, 900, "write")
    assert (await device.finish(login)).body == {"interval": 5}
    device.wait(5)
    assert "all set" in await device.authorize(login)
    answer = await device.finish(login)
    assert (answer.status, answer.body["login"]) == (200, "mona")
    assert answer.headers["Cache-Control"] == "no-store"
    mona = Caller(world, device.session, answer.body["token"])
    queued = await mona.queue(world.open("add"))
    assert (queued.status, queued.body["queued_by"]) == (202, "mona")
    assert (await mona.ask("POST", PAUSE)).status == 403
    assert await names(world) == [answer.body["name"]]
    device.wait(VALID_FOR.total_seconds())
    assert (await mona.ask("GET", QUEUES)).status == 401


async def test_token_that_github_gave_is_revoked_at_once(world: World, device: Device) -> None:
    """With the App's client secret IMQ leaves no token of the person behind; a failure costs no login."""
    world.app.client_secret = "c" * 40
    server, known = device.world.server, device.world.server.tokens.users
    flow = DeviceFlow(
        device.session,
        website=server.url,
        api_url=server.url,
        client_id=_client_id(world),
        clock=world.clock,
        client_secret=SecretStr(world.app.client_secret),
    )
    for secret in (world.app.client_secret, "another"):
        begun = await flow.begin()
        await type_code(device.session, begun.verification_uri, begun.user_code)
        world.app.client_secret = secret
        found = await flow.outcome(begun.device_code)
        assert isinstance(found, Actor)
        assert server.tokens.users == known + (secret == "another")


async def test_maintainer_may_ask_for_a_token_that_controls_queues(device: Device) -> None:
    """Only with `access` does the token pause a queue, whatever role its person has."""
    rhea = await device.logged_in("rhea")
    await rhea.queue(device.world.open("add"))
    assert (await rhea.ask("POST", PAUSE, body={"reason": "Release"})).status == 403
    rhea = await device.logged_in("rhea", access="maintain")
    assert (await rhea.ask("POST", PAUSE, body={"reason": "Release"})).status == 200


async def test_log_out_revokes_the_token_of_the_login_and_no_other(world: World, device: Device) -> None:
    """An operator's token is not revoked by its own call."""
    mona, other = await device.logged_in(), await device.logged_in("rhea")
    answer = await mona.send("DELETE", LOGIN)
    assert answer[0] == 204
    assert (await mona.ask("GET", QUEUES)).status == 401
    assert (await other.ask("GET", QUEUES)).status == 200
    made = await caller(world, device.session, "mona")
    assert (await made.ask("DELETE", LOGIN, key="once")).status == 403
    assert (await made.ask("GET", QUEUES)).status == 200


async def test_login_that_its_person_cancels_ends(device: Device) -> None:
    """The command line learns it, and the code is void."""
    login = await device.begin()
    await device.authorize(login, cancel=True)
    answer = await device.finish(login)
    assert (answer.status, answer.body["reason"]) == (410, "denied")
    assert "check your code" in await device.authorize(login)


async def test_code_is_void_after_a_quarter_of_an_hour(device: Device) -> None:
    """Neither GitHub's page nor IMQ takes it."""
    login = await device.begin()
    device.wait(901)
    await device.authorize(login)
    answer = await device.finish(login)
    assert (answer.status, answer.body["reason"]) == (410, "expired")


@pytest.mark.parametrize("has_interval", [True, False])
async def test_github_that_asks_to_slow_down_is_obeyed(device: Device, has_interval: bool) -> None:
    """The next question is asked no sooner than GitHub's new interval allows."""
    device.world.github.behaviour.slow_down_has_interval = has_interval
    login = await device.begin()
    await device.finish(login)
    (code,) = device.world.github.state.device_codes.values()
    device.wait(5)
    code.asked_at = device.world.clock.now()  # Another process of IMQ asked in the same moment.
    assert (await device.finish(login)).body == {"interval": 10}
    await device.authorize(login)
    device.wait(9)
    assert (await device.finish(login)).status == 202
    assert code.asked_at < device.world.clock.now()
    device.wait(1)
    assert (await device.finish(login)).status == 200


@pytest.mark.thorough
async def test_caller_who_asks_at_once_again_costs_github_nothing(device: Device) -> None:
    """IMQ itself keeps GitHub's interval."""
    login = await device.begin()
    for _ in range(5):
        assert (await device.finish(login)).body == {"interval": 5}
    (code,) = device.world.github.state.device_codes.values()
    assert code.interval == 5, "GitHub was asked too soon"


@pytest.mark.parametrize("status", [400, 200])
async def test_app_without_the_device_flow_is_explained(device: Device, status: int) -> None:
    """The answer names the setting that the App's owner has to enable."""
    device.world.app.device_flow = False
    device.world.github.behaviour.device_flow_disabled = status
    answer = await device.stranger.ask("POST", BEGIN)
    assert (answer.status, answer.body["reason"]) == (409, "device_flow_disabled")
    assert "Enable Device Flow" in answer.body["error"]


async def test_login_is_claimed_once(world: World, device: Device) -> None:
    """A second claim gets no second token, also where GitHub would give its token again."""
    login = await device.begin()
    await device.authorize(login)
    (code,) = world.github.state.device_codes.values()
    assert (await device.finish(login)).status == 200
    device.wait(5)
    assert (await device.finish(login)).body["reason"] == "used"
    world.github.state.device_codes[code.code] = code
    device.wait(5)
    answer = await device.finish(login)
    assert (answer.status, answer.body["reason"]) == (410, "used")
    assert len(await names(world)) == 1


@pytest.mark.thorough
async def test_id_that_imq_did_not_make_is_no_login(world: World, device: Device) -> None:
    """A guess, a changed id, another IMQ's id and GitHub's own code are all unknown; GitHub is not asked."""
    login = await device.begin()
    (code,) = world.github.state.device_codes.values()
    ends = world.clock.now() + timedelta(hours=1)
    same_code = DeviceLogin(SecretStr(code.code), Permission.MAINTAIN, ends, timedelta(seconds=5))
    theirs = LoginIds(SecretStr(KeyPair().private)).seal(same_code)
    changed = login["id"][:-6] + ("A" if login["id"][-6] != "A" else "B") + login["id"][-5:]
    await device.authorize(login)
    for wrong in (code.code, changed, theirs, "x", "", "gAAAA" * 300):
        answer = await device.stranger.ask("POST", FINISH, body={"id": wrong})
        assert answer.status == 404, wrong
    assert code.asked_at is None
    assert await names(world) == []


@pytest.mark.thorough
async def test_token_of_another_app_cannot_be_put_in(world: World, device: Device) -> None:
    """IMQ asks GitHub itself, as its own App: a caller has no field for a token or a client id."""
    other = world.github.create_app("other", permissions={})
    other.device_flow = True
    foreign = world.server.tokens.user_of_app("rhea")
    login = await device.begin()
    for more in ({"access_token": foreign}, {"client_id": other.client_id}, {"token": foreign}):
        assert (await device.stranger.ask("POST", FINISH, body={"id": login["id"], **more})).status == 400
    assert (await device.stranger.ask("POST", BEGIN, body={"client_id": other.client_id})).status == 400
    assert (await Caller(world, device.session, foreign).ask("GET", QUEUES)).status == 401


@pytest.mark.thorough
async def test_renamed_person_keeps_the_token_and_the_next_owner_of_the_login_gets_nothing(
    world: World, device: Device
) -> None:
    """A login is bound to GitHub's id."""
    mona = await device.logged_in()
    world.github.accounts.rename(world.github.user("mona"), "lisa")
    world.github.create_user("mona")
    device.wait(600)
    queued = await mona.queue(world.open("add", by="rhea"))
    assert (queued.status, queued.body["queued_by"]) == (202, "lisa")
    assert (await (await device.logged_in("mona")).ask("GET", QUEUES)).status == 404


async def test_person_has_so_many_logins_and_the_oldest_goes(world: World, device: Device) -> None:
    """Logging in again and again fills no table."""
    first = await device.logged_in()
    for _ in range(MOST_LOGINS):
        device.wait(60)
        last = await device.logged_in()
    assert len(await names(world)) == MOST_LOGINS
    assert (await first.ask("GET", QUEUES)).status == 401
    assert (await last.ask("GET", QUEUES)).status == 200


async def test_no_log_line_has_a_code_or_a_token(world: World, device: Device) -> None:
    """Neither GitHub's codes, the id, GitHub's token nor IMQ's."""
    with capture_logs() as logs:
        login = await device.begin()
        (code,) = world.github.state.device_codes.values()
        await device.authorize(login)
        token = (await device.finish(login)).body["token"]
        await device.finish({"id": code.code})
    written = str(logs)
    assert "login_begun" in written
    assert "person_logged_in" in written
    for secret in (code.code, login["user_code"], login["id"], token, *world.server.tokens._users):
        assert secret not in written


async def test_github_that_fails_after_the_code_was_typed_loses_no_login(world: World, device: Device) -> None:
    """GitHub gives its token once; IMQ asks again who the person is."""
    login = await device.begin()
    await device.authorize(login)
    world.server.faults.add(Fault("fail", "GET", "/user", status=502))
    assert (await device.finish(login)).status == 503
    device.wait(5)
    assert (await device.finish(login)).status == 200
