"""What IMQ finds of its App at the start, and whether GitHub accepts its credentials, on the emulator over HTTP."""

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr
from structlog.testing import capture_logs

from bot.gateway.gateway import Gateway
from bot.gateway.http.connection import Connection
from bot.process import app_status
from bot.process.app_status import AppStatus
from github_emulator import App, EmulatorServer, Fault, GitHub
from tests.acceptance.starting import SharedClock
from tests.support.app_key import KEY

PERMISSIONS = {"metadata": "read", "issues": "read", "pull_requests": "read"}


@dataclass
class Place:
    """A GitHub with an App that is installed nowhere yet."""

    github: GitHub
    server: EmulatorServer
    app: App
    clock: SharedClock
    stack: AsyncExitStack

    async def status(self, public_url: str | None = None, app_id: str | None = None) -> AppStatus:
        """The status as a process would ask for it."""
        session = await self.stack.enter_async_context(aiohttp.ClientSession())
        key = SecretStr(self.app.private_key)
        gateway = Gateway(
            Connection(
                session,
                api_url=self.server.url,
                app_id=app_id or str(self.app.id),
                private_key=key,
                clock=self.clock,
            )
        )
        return AppStatus(gateway.app, gateway.repositories, self.clock, public_url=public_url)


@asynccontextmanager
async def _a_place(directory: Path) -> AsyncIterator[Place]:
    clock = SharedClock()
    github = GitHub(clock, directory=directory)
    server = EmulatorServer(github, jwt_clock=clock)
    await server.start()
    app = github.create_app("imq", permissions=PERMISSIONS, webhook_url="https://imq.acme.dev/webhook")
    app.key = KEY
    try:
        async with AsyncExitStack() as stack:
            yield Place(github, server, app, clock, stack)
    finally:
        await server.stop()
        await github.close()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with _a_place(tmp_path / "github") as place:
        yield place


async def found(status: AppStatus) -> list[Any]:
    """What one check logs."""
    with capture_logs() as logs:
        await status.run_due()
    return [line for line in logs if line["log_level"] != "debug" and line["event"] != "permission_missing"]


async def test_start_reports_the_app_its_installations_and_repositories(place: Place) -> None:
    """Once; later checks are silent."""
    for name in ("acme/one", "acme/two", "other/three"):
        place.github.create_repository(name, files={"a": "1\n"})
    place.github.install(place.app, "acme")
    suspended = place.github.install(place.app, "other")
    suspended.suspended_at = place.clock.now()
    status = await place.status()
    (line,) = await found(status)
    assert (line["event"], line["slug"], line["app_id"]) == ("app_found", "imq", place.app.id)
    assert (line["installations"], line["suspended"], line["repositories"]) == (2, ["other"], 2)
    assert line["webhook"] == "https://imq.acme.dev/webhook"
    place.clock.advance(timedelta(minutes=5))
    assert await found(status) == []
    assert status.accepted


async def test_start_of_an_app_that_is_installed_nowhere_says_where_to_install_it(place: Place) -> None:
    """The first start comes before the first installation."""
    lines = await found(await place.status())
    assert [line["event"] for line in lines] == ["app_found", "app_not_installed"]
    assert lines[1]["advice"].endswith("/apps/imq/installations/new")


async def test_app_that_gets_its_first_repository_is_described_again(place: Place) -> None:
    """The operator who follows the advice sees within a minute that it helped, without a restart."""
    status = await place.status(public_url="https://imq.acme.dev")
    await found(status)
    assert status.advice is not None
    place.clock.advance(timedelta(minutes=1))
    assert await found(status) == [], "nothing has changed"
    place.github.create_repository("acme/one", files={"a": "1\n"})
    place.github.install(place.app, "acme")
    place.clock.advance(timedelta(minutes=1))
    (line,) = await found(status)
    assert (line["event"], line["installations"], line["repositories"]) == ("app_found", 1, 1)
    assert status.advice is None


async def test_app_whose_only_installation_is_suspended_gets_the_address_to_unsuspend_it(place: Place) -> None:
    """To choose repositories would not help."""
    installation = place.github.install(place.app, "acme")
    installation.suspended_at = place.clock.now()
    lines = await found(await place.status(public_url="https://imq.acme.dev"))
    assert lines[1]["advice"].startswith("Unsuspend the App: http")
    assert lines[1]["advice"].endswith(f"/installations/{installation.id}")


async def test_start_names_a_webhook_address_that_is_not_imqs(place: Place) -> None:
    """GitHub would deliver elsewhere, and nothing else would say so."""
    place.github.create_repository("acme/one", files={"a": "1\n"})
    place.github.install(place.app, "acme")
    lines = await found(await place.status(public_url="https://queue.acme.dev"))
    assert [line["event"] for line in lines] == ["app_found", "webhook_address_wrong"]
    assert "https://queue.acme.dev/webhook" in lines[1]["advice"]


async def test_start_without_any_repository_says_where_to_choose_some(place: Place) -> None:
    """An installation on selected repositories may have none left, and a suspended one shows none."""
    place.github.create_repository("acme/one", files={"a": "1\n"})
    installation = place.github.install(place.app, "acme", repositories=())
    lines = await found(await place.status(public_url="https://imq.acme.dev"))
    assert [line["event"] for line in lines] == ["app_found", "app_has_no_repositories"]
    assert lines[1]["advice"].startswith("Choose repositories for the App: http")
    assert lines[1]["advice"].endswith(f"/installations/{installation.id}")


@pytest.mark.parametrize("wrong", ["id", "key"])
async def test_refused_credentials_are_logged_once_and_accepted_again_by_themselves(place: Place, wrong: str) -> None:
    """GitHub answers 401 to a key, and 404 to an id, that it does not know."""
    place.github.install(place.app, "acme")
    status = await place.status(app_id="999999" if wrong == "id" else None)
    fault = Fault("fail", route="/app", status=401, times=None)
    if wrong == "key":
        place.server.faults.add(fault)
    (line,) = await found(status)
    assert line["event"] == "app_refused"
    assert "IMQ_GITHUB_PRIVATE_KEY" in line["advice"]
    assert status.accepted is False
    place.clock.advance(timedelta(seconds=15))
    assert await found(status) == []
    if wrong == "key":
        place.server.faults.clear()
        place.clock.advance(timedelta(seconds=15))
        assert [each["event"] for each in await found(status)][:2] == ["app_accepted", "app_found"]
        assert (status.accepted, status.refusal) == (True, None)


async def test_answer_about_an_installation_says_nothing_of_the_apps_credentials(place: Place) -> None:
    """GitHub may refuse a list, or the webhook's settings: the key is accepted all the same."""
    place.server.faults.add(Fault("fail", route="/app/hook/config", status=404, times=None))
    status = await place.status()
    assert [line["event"] for line in await found(status)] == ["app_not_described"]
    assert (status.accepted, status.refusal) == (True, None)


async def test_github_that_fails_is_no_refusal(place: Place) -> None:
    """Whether the key is right is not known then; the process stays ready, and asks again soon."""
    place.server.faults.add(Fault("reset", route="/app", times=None))
    status = await place.status()
    assert [line["event"] for line in await found(status)] == ["github_unreachable"]
    await status.first_answer()
    assert (status.accepted, status.refusal) == (None, None)
    assert not await status.run_due()
    place.clock.advance(timedelta(seconds=15))
    assert await status.run_due()


async def test_app_whose_installations_could_not_be_read_is_described_soon(place: Place) -> None:
    """GitHub failed for a moment at the start: the operator still learns where to install the App."""
    place.server.faults.add(Fault("reset", route="/app/installations", times=None))
    status = await place.status()
    assert "app_found" not in [line["event"] for line in await found(status)]
    place.server.faults.clear()
    place.clock.advance(timedelta(seconds=15))
    assert "app_not_installed" in [line["event"] for line in await found(status)]


async def test_start_with_many_installations_counts_no_repositories(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each installation would cost a token and a list at every start."""
    monkeypatch.setattr(app_status, "_MOST_LISTED", 1)
    for owner in ("acme", "other"):
        place.github.create_repository(f"{owner}/one", files={"a": "1\n"})
        place.github.install(place.app, owner)
    (line,) = await found(await place.status())
    assert (line["event"], line["installations"], line["repositories"]) == ("app_found", 2, None)
    assert not [each for each in place.server.requests if each.template.endswith("/access_tokens")]
