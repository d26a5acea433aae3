"""The App's webhook is what the settings say, on the emulator over HTTP."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.gateway.gateway import Gateway
from bot.gateway.http.connection import Connection
from bot.process.app_status import WebhookCorrection
from github_emulator import App, EmulatorServer, Fault, GitHub
from tests.acceptance.starting import SharedClock
from tests.support.app_key import KEY

ADDRESS = "https://imq.example.com/webhook"
SECRET = "s3cret-0123456789abcdef"  # pragma: allowlist secret


@dataclass
class Place:
    """An App, and what corrects its webhook."""

    github: GitHub
    server: EmulatorServer
    app: App
    gateway: Gateway

    async def corrected(self, address: str | None = ADDRESS) -> list[Any]:
        """Correct the webhook as a start does; return what was logged."""
        correction = WebhookCorrection(self.gateway.app, address, SecretStr(SECRET))
        with capture_logs() as logs:
            found = await correction.apply(await self.gateway.app.webhook())
        assert found.url == (self.app.webhook_url or "")
        return [line for line in logs if line["log_level"] == "warning"]

    def changes(self) -> int:
        """How often IMQ changed the webhook."""
        return len(self.server.requests.of("PATCH /app/hook/config"))


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    clock = SharedClock()
    github = GitHub(clock, directory=tmp_path / "github")
    server = EmulatorServer(github, jwt_clock=clock)
    await server.start()
    permissions = {"metadata": "read", "contents": "read"}
    app = github.create_app("imq", permissions=permissions, events=["push"], webhook_url=ADDRESS, webhook_secret=SECRET)
    app.key = KEY
    async with aiohttp.ClientSession() as session:
        key = SecretStr(app.private_key)
        gateway = Gateway(Connection(session, api_url=server.url, app_id=str(app.id), private_key=key, clock=clock))
        yield Place(github, server, app, gateway)
    await server.stop()
    await github.close()


async def test_webhook_that_is_right_is_left_alone(place: Place) -> None:
    """A start writes nothing to GitHub."""
    assert await place.corrected() == []
    assert place.changes() == 0


async def test_webhook_with_another_address_gets_address_and_secret(place: Place) -> None:
    """After a move, or for an App that was registered without a webhook; the log names both addresses."""
    for before in ("https://old.example.com/webhook", None):
        place.app.webhook_url, place.app.webhook_secret = before, "another-secret-of-the-app"
        (line,) = await place.corrected()
        assert (line["event"], line["before"], line["address"]) == ("webhook_corrected", before or "", ADDRESS)
        assert (place.app.webhook_url, place.app.webhook_secret) == (ADDRESS, SECRET)
        assert SECRET not in str(line)


async def test_webhook_without_a_secret_gets_one(place: Place) -> None:
    """IMQ accepts signed deliveries only."""
    place.app.webhook_secret = ""
    await place.corrected()
    assert place.app.webhook_secret == SECRET


@pytest.mark.parametrize(("status", "changes"), [(401, 1), (503, 0), (202, 0)])
async def test_webhook_whose_signature_was_refused_gets_the_secret(place: Place, status: int, changes: int) -> None:
    """GitHub never shows the secret, so the answer to the newest delivery decides; other failures have other causes."""
    repository = place.github.create_repository("acme/one", files={"a": "1\n"})
    place.github.install(place.app, "acme")
    repository.push("main", {"a": "2\n"}, "On")
    place.app.webhook_secret = "another-secret-of-the-app"
    for number, delivery in enumerate(place.github.state.deliveries):
        delivery.status, delivery.status_code = "answered", 401 if number == 0 else status
    await place.corrected()
    assert place.changes() == changes
    assert (place.app.webhook_secret == SECRET) is bool(changes)


async def test_webhook_is_left_alone_without_a_public_address(place: Place) -> None:
    """IMQ does not know where GitHub reaches it, or a setting forbids the correction."""
    place.app.webhook_url = None
    assert await place.corrected(None) == []
    assert place.changes() == 0


async def test_webhook_that_github_does_not_let_imq_correct_is_reported(place: Place) -> None:
    """The start continues; a person sets the address."""
    place.app.webhook_url = "https://old.example.com/webhook"
    place.server.faults.add(Fault("fail", method="PATCH", status=403))
    (line,) = await place.corrected()
    assert (line["event"], line["wanted"]) == ("webhook_not_corrected", ADDRESS)
