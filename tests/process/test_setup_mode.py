"""A hosted IMQ without an App: the page `/setup` leads to a running queue, and is gone afterwards."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from bot.registration.manifest import read_manifest
from over_http.browser_forms import Page, Person
from tests.support.databases import MakeUrl
from tests.support.real_time import LIMIT
from tests.support.relay_server import RelayServer
from tests.support.setup_process import World, running, world

pytestmark = pytest.mark.process


async def status(url: str, method: str = "GET") -> int:
    async with aiohttp.ClientSession() as session, session.request(method, url) as answer:
        return answer.status


async def register(person: Person, place: World, code: str) -> Page:
    """From the code to the page that reports the registration."""
    page = await person.open(f"{place.url}/setup?code={code}")
    for _ in range(4):
        page = await person.send(page, page.forms[0])
    return page


async def until_green(person: Person, page: Page) -> Page:
    """Reload the page as a browser does after a refresh header."""
    async with asyncio.timeout(LIMIT):
        while page.refresh is not None:
            await asyncio.sleep(0.1)  # no-sleep-ok: real processes exchange a webhook
            page = await person.open(page.url)
    return page


@pytest.mark.thorough
async def test_hosted_imq_is_registered_in_the_browser_and_starts_by_itself(tmp_path: Path) -> None:
    """One process, one database: no secret is typed, none is in the log, and the page closes for good."""
    async with world(tmp_path, f"sqlite:///{tmp_path / 'imq.db'}") as place, Person() as person:
        async with running(place.environment, "run") as imq:
            opened = await imq.until("setup_page_open")
            await imq.until("listening")
            assert opened["page"] == f"{place.url}/setup"
            assert await status(f"{place.url}/healthz") == 200
            assert await status(f"{place.url}/readyz") == 503
            assert await status(f"{place.url}/webhook", "POST") == 503
            page = await register(person, place, opened["code"])
            assert "IMQ has stored the credentials, encrypted, and is starting." in page.text
            page = await person.open(page.links[0])
            page = await person.send(page, page.forms[0])
            assert page.url.path == "/setup/installed"
            page = await until_green(person, page)
            assert "The first webhook has arrived" in page.text
            assert await status(f"{place.url}/readyz") == 200
            for path in ("/setup", "/setup/callback"):
                assert await status(place.url + path) == 404
            assert await imq.end() == 0
            app = next(app for app in place.github.state.apps.values() if app.name.startswith("IMQ "))
            stored = (tmp_path / "imq.db").read_bytes()
            for secret in (app.webhook_secret, app.private_key[40:90], app.private_key[1000:1060]):
                assert secret not in "".join(imq.text)
                assert secret.encode() not in stored
        app.webhook_url = "http://127.0.0.1:9/webhook"
        async with running(place.environment, "run") as imq:
            await imq.until("listening")
            assert not [line for line in imq.log if line["event"] == "setup_page_open"]
            await imq.until("webhook_corrected")
            assert app.webhook_url == f"{place.url}/webhook"
            assert await imq.end() == 0
        async with running(place.environment | {"IMQ_SECRET_KEY": "another-key-of-IMQ-12345"}, "run") as imq:
            assert await imq.finished() == 2
            assert "IMQ_SECRET_KEY is not the key with which the App's credentials were stored" in imq.text[-1]
            assert "set IMQ_FORMER_SECRET_KEY to the former key" in imq.text[-1]
        newer = place.environment | {"IMQ_SECRET_KEY": "another-key-of-IMQ-12345"}
        changed = newer | {"IMQ_FORMER_SECRET_KEY": place.environment["IMQ_SECRET_KEY"]}
        for environment in (changed, newer):  # After the first start the new key suffices.
            async with running(environment, "run") as imq:
                await imq.until("listening")
                events = [line for line in imq.log if line["event"] == "credentials_reencrypted"]
                assert len(events) == (1 if environment is changed else 0)
                assert await imq.end() == 0


async def test_process_without_app_and_without_address_names_both_ways_out(tmp_path: Path) -> None:
    """The key alone opens no page, since GitHub would not find back."""
    environment = {"IMQ_SECRET_KEY": "another-key-of-IMQ-12345", "DATABASE_URL": f"sqlite:///{tmp_path / 'imq.db'}"}
    async with running(environment, "run") as imq:
        assert await imq.finished() == 2
    assert "run `imq setup`; or set IMQ_PUBLIC_URL and IMQ_SECRET_KEY" in imq.text[-1]
    assert "Traceback" not in imq.text[-1]


async def test_process_in_setup_mode_ends_when_it_is_stopped(tmp_path: Path) -> None:
    """A platform that replaces the process does not wait for a person; and the page is on the port that it got."""
    async with (
        world(tmp_path, f"sqlite:///{tmp_path / 'imq.db'}") as place,
        running(place.environment | {"PORT": "0", "IMQ_PUBLIC_URL": "http://127.0.0.1:0"}, "run") as imq,
    ):
        opened = await imq.until("setup_page_open")
        assert opened["page"] == f"http://127.0.0.1:{(await imq.until('listening'))['port']}/setup"
        assert await imq.end() == 0


@pytest.mark.thorough
@pytest.mark.postgres
async def test_worker_and_second_web_process_start_when_the_first_one_has_credentials(
    tmp_path: Path, make_postgres_url: MakeUrl
) -> None:
    """All processes print one code, and find the App in the database."""
    async with world(tmp_path, make_postgres_url()) as place, Person() as person:
        other = place.environment | {"PORT": "0"}
        async with (
            running(place.environment, "web") as web,
            running(other, "web") as second,
            running(other, "worker") as worker,
        ):
            code = (await web.until("setup_page_open"))["code"]
            assert (await second.until("setup_page_open"))["code"] == code
            await worker.until("credentials_awaited")
            await register(person, place, code)
            await worker.until("listening_to_other_processes")
            for each in (web, second):
                await each.until("app_registered" if each is web else "credentials_awaited")
                await each.until("listening")
            assert [await each.end() for each in (web, second, worker)] == [0, 0, 0]


async def test_app_of_a_trial_gets_its_webhooks_by_a_relay(tmp_path: Path) -> None:
    """No public address: the first webhook arrives all the same, and after the relay was away the next one does."""
    relay = RelayServer()
    await relay.start()
    try:
        async with world(tmp_path, f"sqlite:///{tmp_path / 'imq.db'}") as place, Person() as person:
            app = place.github.create_app(
                "trial",
                permissions=read_manifest().permissions,
                events=read_manifest().events,
                webhook_url="https://old.example.com/webhook",
                webhook_secret="another-secret-of-the-app",
            )
            trial = {name: place.environment[name] for name in place.environment.keys() - {"IMQ_PUBLIC_URL"}}
            credentials = {
                "IMQ_GITHUB_APP_ID": str(app.id),
                "IMQ_GITHUB_PRIVATE_KEY": app.private_key,
                "IMQ_GITHUB_WEBHOOK_SECRET": "s3cret-0123456789abcdef",
                "IMQ_RELAY_URL": relay.url,
            }
            async with running(trial | credentials, "run") as imq:
                await imq.until("relay_connected")
                await imq.until("webhook_corrected")
                assert app.webhook_url == relay.url
                await relay.hang_up()
                await imq.until("relay_connected")
                place.github.install(app, "maintainer")
                page = await until_green(person, await person.open(f"{place.url}/setup/installed"))
                assert "The first webhook has arrived" in page.text
                assert await imq.end() == 0
    finally:
        await relay.stop()
