"""The web application's own pages and errors."""

import asyncio
from datetime import timedelta

import aiohttp
import pytest
from aiohttp import web
from pydantic import SecretStr
from pytest_aiohttp import AiohttpClient

from bot.web.application import Check, Readiness, RequirementError, create_app, serve
from bot.webhooks.receiver import Receiver
from queue_engine.core.database.outage import Busy, OutageKind
from queue_engine.domain.webhooks import WebhookEvent
from tests.support.gates import unguarded
from tests.unit.bot.conftest import ManualClock


async def _stored(_webhook_event: WebhookEvent) -> bool:
    return True


async def _yes() -> bool:
    return True


async def _no() -> bool:
    return False


async def _broken() -> bool:
    raise OSError("no route to host")


async def _refused() -> bool:
    raise RequirementError("GitHub refuses the key.")


async def _locked() -> bool:
    raise Busy("somebody writes, and goes on writing")


def _app(checks: dict[str, Check] | None = None, clock: ManualClock | None = None) -> web.Application:
    clock = clock or ManualClock()
    return create_app(
        Receiver(secret=SecretStr("s"), own_app_id=1, store=_stored, clock=clock), Readiness(checks or {}, clock)
    )


async def _get(aiohttp_client: AiohttpClient, app: web.Application, path: str) -> tuple[int, dict[str, object]]:
    client = await aiohttp_client(app)
    async with client.get(path) as response:
        return response.status, await response.json()


async def test_healthz_answers_while_the_process_lives(aiohttp_client: AiohttpClient) -> None:
    """Even when the database is away: restarting would not bring it back."""
    assert await _get(aiohttp_client, _app({"database": _broken}), "/healthz") == (200, {"status": "alive"})


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/missing"])
async def test_no_answer_names_the_software_of_the_server(aiohttp_client: AiohttpClient, path: str) -> None:
    """Versions of aiohttp and Python tell a stranger which faults to try."""
    client = await aiohttp_client(_app({"database": _broken}))
    async with client.get(path) as response:
        assert "Server" not in response.headers


async def test_readyz_answers_when_every_check_holds(aiohttp_client: AiohttpClient) -> None:
    """The platform may send traffic."""
    assert await _get(aiohttp_client, _app({"database": _yes, "migrations": _yes}), "/readyz") == (
        200,
        {"status": "ready"},
    )


async def test_readyz_of_a_process_without_repositories_says_what_to_do(aiohttp_client: AiohttpClient) -> None:
    """It is ready all the same: the App can be installed only where its webhooks arrive."""
    clock = ManualClock()
    receiver = Receiver(secret=SecretStr("s"), own_app_id=1, store=_stored, clock=clock)
    app = create_app(receiver, Readiness({"database": _yes}, clock, lambda: "Install the App."))
    assert await _get(aiohttp_client, app, "/readyz") == (200, {"status": "ready", "advice": "Install the App."})


async def test_readyz_names_what_is_not_there(aiohttp_client: AiohttpClient) -> None:
    """A check that raises is one that does not hold."""
    checks: dict[str, Check] = {"database": _broken, "migrations": _no, "other": _yes}
    expected = {"status": "not ready", "failing": ["database", "migrations"], "why": {}}
    assert await _get(aiohttp_client, _app(checks), "/readyz") == (503, expected)


async def test_readyz_says_what_is_wrong_with_the_database(aiohttp_client: AiohttpClient) -> None:
    """The operator reads what to do, without the log."""
    expected = {"status": "not ready", "failing": ["database"], "why": {"database": OutageKind.LOCKED.sentence}}
    assert await _get(aiohttp_client, _app({"database": _locked}), "/readyz") == (503, expected)


async def test_readyz_says_why_a_requirement_is_not_met(aiohttp_client: AiohttpClient) -> None:
    """A sentence for the operator stands there as it is."""
    expected = {"status": "not ready", "failing": ["app"], "why": {"app": "GitHub refuses the key."}}
    assert await _get(aiohttp_client, _app({"app": _refused}), "/readyz") == (503, expected)


async def test_readyz_under_load_asks_the_database_once_a_second(
    session: aiohttp.ClientSession, clock: ManualClock
) -> None:
    """A hundred questions at once, and a hundred after each other, cost the database one query; failures too."""
    pings = 0
    there = True

    async def ping() -> bool:
        nonlocal pings
        pings += 1
        return there

    runner = await serve(_app({"database": ping}, clock), 0, "127.0.0.1")
    url = f"http://127.0.0.1:{runner.addresses[0][1]}/readyz"

    async def ask() -> int:
        async with session.get(url) as response:
            return response.status

    assert set(await asyncio.gather(*(ask() for _ in range(100)))) == {200}
    there = False
    clock.instant += timedelta(seconds=0.9)
    assert {await ask() for _ in range(100)} == {200}
    assert pings == 1
    clock.instant += timedelta(seconds=0.1)
    assert set(await asyncio.gather(*(ask() for _ in range(100)))) == {503}
    assert pings == 2
    clock.instant -= timedelta(hours=1)
    await ask()
    assert pings == 3, "a clock that was set back makes no answer last an hour"
    await runner.cleanup()


@pytest.mark.parametrize(("path", "status", "error"), [("/nowhere", 404, "Not Found"), ("/webhook", 405, None)])
async def test_wrong_address_or_method_is_answered_in_json(
    aiohttp_client: AiohttpClient, path: str, status: int, error: str | None
) -> None:
    """A client that asks for JSON gets JSON back."""
    answered, answer = await _get(aiohttp_client, _app(), path)
    assert answered == status
    assert answer["error"] == error or "Method Not Allowed"


async def test_unexpected_error_shows_nothing_of_the_inside(aiohttp_client: AiohttpClient) -> None:
    """The details are for the log."""

    async def crash(_request: web.Request) -> web.Response:
        raise RuntimeError("postgres://u:password@db")

    app = _app()
    app.router.add_get("/crash", crash)
    assert await _get(aiohttp_client, app, "/crash") == (500, {"error": "Internal Server Error"})


async def test_port_in_use_raises_and_leaves_nothing_open(session: aiohttp.ClientSession) -> None:
    """The operator sees the system's own words."""
    runner = await serve(_app(), 0, "127.0.0.1")
    with unguarded(), pytest.raises(OSError, match="in use"):  # a port that this test holds
        await serve(_app(), runner.addresses[0][1], "127.0.0.1")
    await runner.cleanup()
