"""`imq setup` as an operator uses it, with a person at the browser."""

import asyncio
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from pydantic import SecretStr

from bot.cli import host, main
from bot.registration.manifest import Credentials
from bot.registration.stored import StoredCredentials
from bot.settings import env_file
from bot.settings.environment import load_settings
from github_emulator import App, EmulatorServer, GitHub
from over_http.browser_forms import Page, Person
from queue_engine.core.timing.clock import SystemClock
from queue_engine.store import Store
from tests.acceptance.template import Template
from tests.support.real_time import LIMIT

pytestmark = pytest.mark.process

KEY = SecretStr("0c1d2e3f4a5b6c7d8e9f")
URL = "https://imq.example.com"


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EmulatorServer]:
    github = GitHub(directory=tmp_path / "github")
    github.create_user("guild", "Organization")
    server = EmulatorServer(github)
    await server.start()
    yield server
    await server.stop()
    await github.close()


async def register(server: EmulatorServer, directory: Path, *arguments: str, **settings: str) -> tuple[str, App, Page]:
    """Run `imq setup` in the directory, and go through its pages; the output, the App and the last page."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("IMQ_")}
    template = Template()
    environment = {**kept, "IMQ_GITHUB_API_URL": server.url, **settings}
    process = await template.fork_piped(("setup", *arguments), environment, directory)
    try:
        async with asyncio.timeout(LIMIT), Person() as person:
            assert process.stdout is not None
            first = (await process.stdout.readline()).decode()
            found = re.search(r"http://127\.0\.0\.1:\d+/setup\?code=\S+", first)
            assert found is not None, first + (await process.stdout.read()).decode()
            page = await person.open(found[0])
            for _ in range(4):
                page = await person.send(page, page.forms[0])
            rest, errors = await process.communicate()
            output = first + rest.decode() + errors.decode()
            assert process.returncode == 0, output
    finally:
        process.kill()
        await template.close()
    return output, list(server.github.state.apps.values())[-1], page


@pytest.mark.process
async def test_setup_writes_what_imq_reads(server: EmulatorServer, tmp_path: Path) -> None:
    """The file is complete, and only its owner can read it."""
    work = tmp_path / "work"
    work.mkdir()
    (work / ".env").write_text("PORT=8081\n")
    output, app, page = await register(server, work, "--url", URL, "--org", "guild", "--without", "actions")
    assert "The credentials are in .env." in page.text
    # GitHub sends the person to IMQ after the installation: an IMQ that does not run would be an error page.
    assert page.text.index("First start IMQ") < page.text.index(f"{URL}/setup/installed")
    assert page.text.index("load the page again") < page.text.index("Install the App")
    assert "Registered the App. The credentials are in .env.\n" in output
    assert (
        f"Start IMQ with them, by `imq run` for example. Then install the App on your repositories: {page.links[0]}\n"
        in output
    )
    settings = load_settings(env_file.read(work / ".env"))
    assert (settings.github_app_id, settings.github_private_key.get_secret_value()) == (str(app.id), app.private_key)
    assert settings.github_webhook_secret.get_secret_value() == app.webhook_secret
    assert (settings.public_url, settings.port, settings.github_api_url) == (URL, 8081, server.url)
    assert (work / ".env").stat().st_mode & 0o777 == 0o600
    assert (app.owner.login, app.webhook_url, app.setup_url) == ("guild", f"{URL}/webhook", f"{URL}/setup/installed")
    assert "actions" not in app.permissions
    assert app.private_key not in output


@pytest.mark.process
async def test_setup_prints_the_commands_of_a_platform_and_writes_nothing(
    server: EmulatorServer, tmp_path: Path
) -> None:
    """For those whose settings are not on this machine."""
    work = tmp_path / "work"
    work.mkdir()
    arguments = ("--url", URL, "--print", "heroku", "--enterprise", server.url)
    output, app, _ = await register(server, work, *arguments)
    assert f"\nheroku config:set IMQ_GITHUB_APP_ID={app.id} IMQ_GITHUB_PRIVATE_KEY=" in output
    assert f"IMQ_GITHUB_API_URL={server.url}/api/v3" in output
    assert list(work.iterdir()) == []


@pytest.mark.process
async def test_setup_stores_the_credentials_encrypted(
    server: EmulatorServer, tmp_path: Path, store: Store, database_url: str
) -> None:
    """For processes that share a database; a second App is registered only on purpose."""
    settings = {"IMQ_SECRET_KEY": KEY.get_secret_value(), "DATABASE_URL": database_url}
    _, app, page = await register(server, tmp_path, "--url", URL, "--database", **settings)
    assert "The credentials are in the database, encrypted." in page.text
    found = await StoredCredentials(store, KEY).load()
    assert found is not None
    assert found.app_id == app.id
    refused = await asyncio.to_thread(invoke, "--url", URL, "--database", **settings)
    assert "The database has the credentials of an App already. --force replaces them." in refused.stderr
    _, newer, _ = await register(server, tmp_path, "--url", URL, "--database", "--force", **settings)
    found = await StoredCredentials(store, KEY).load()
    assert found is not None
    assert found.app_id == newer.id != app.id


@pytest.mark.process
async def test_credentials_that_cannot_be_stored_are_shown(server: EmulatorServer, tmp_path: Path) -> None:
    """GitHub shows a private key once."""
    (tmp_path / ".env").mkdir()
    output, app, page = await register(server, tmp_path, "--url", URL)
    assert "The terminal shows them." in page.text
    assert f"IMQ_GITHUB_APP_ID={app.id}\nIMQ_GITHUB_PRIVATE_KEY=" in output


def test_commands_find_stored_credentials(database_url: str, pem: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """`imq validate --against` acts as the App that a hosted process registered; a wrong key is named."""

    async def save(store: Store) -> bool:
        app = Credentials(77, "https://github.com/apps/imq", SecretStr(pem), SecretStr("s3cret-0123456789abcdef"))
        return await StoredCredentials(store, KEY).save(app, SystemClock().now())

    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("IMQ_SECRET_KEY", KEY.get_secret_value())
    assert host.run_with_store(save)
    assert host.settings().github_app_id == "77"
    monkeypatch.setenv("IMQ_SECRET_KEY", "another-key-of-IMQ-12345")
    with pytest.raises(click.ClickException, match="IMQ_SECRET_KEY is not the key"):
        host.settings()
    monkeypatch.setenv("IMQ_FORMER_SECRET_KEY", KEY.get_secret_value())
    assert host.settings().github_app_id == "77"


@pytest.mark.process
async def test_setup_with_a_relay_needs_no_public_address(server: EmulatorServer, tmp_path: Path) -> None:
    """GitHub sends webhooks to the relay; the file has all that a login at the pages of this machine needs."""
    relay, pages = "https://smee.io/channel", "http://127.0.0.1:8080"
    output, app, _ = await register(server, tmp_path, "--relay", relay)
    settings = load_settings(env_file.read(tmp_path / ".env"))
    assert (settings.relay_url, settings.public_url, settings.webhook_address) == (relay, pages, relay)
    assert settings.missing_for_login() == []
    assert (app.webhook_url, app.setup_url, app.callback_urls) == (relay, None, (f"{pages}/auth/callback",))
    assert f"Its pages: {pages}\n" in output
    assert settings.secret_key is not None
    assert settings.secret_key.get_secret_value() not in output


@pytest.mark.process
async def test_setup_keeps_the_secret_key_that_is_there(server: EmulatorServer, tmp_path: Path) -> None:
    """A second App does not void what the first key encrypted, nor end sessions."""
    (tmp_path / ".env").write_text(f"IMQ_SECRET_KEY={KEY.get_secret_value()}\n")
    await register(server, tmp_path, "--url", URL)
    assert env_file.read(tmp_path / ".env")["IMQ_SECRET_KEY"] == KEY.get_secret_value()


def invoke(*arguments: str, **environ: str | None) -> Result:
    return CliRunner(env={"IMQ_PUBLIC_URL": None} | environ).invoke(main.main, ["setup", *arguments])


@pytest.fixture(autouse=True)
def _logging_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "configure", lambda *_: None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "Where does GitHub reach IMQ?"),
        (("--url", "http://imq.example.com"), "plain http"),
        (("--url", URL, "--database"), "Set IMQ_SECRET_KEY"),
        (("--url", URL, "--without", "contents"), "contents is no permission that IMQ can do without"),
        (("--url", URL, "--env-file", "no/such/.env"), "There is no directory"),
        (("--url", URL, "--enterprise", "ghe.example.com"), "must be a URL"),
    ],
)
def test_setup_that_cannot_succeed_does_not_begin(arguments: tuple[str, ...], words: str) -> None:
    """No App is made whose credentials would be lost, or that GitHub could not reach."""
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert words in " ".join(result.stderr.split())


def test_setup_does_not_replace_credentials_unasked(tmp_path: Path) -> None:
    """A running installation keeps its App."""
    path = tmp_path / ".env"
    path.write_text("IMQ_GITHUB_APP_ID=77\n")
    result = invoke("--url", URL, "--env-file", str(path))
    assert result.exit_code == 2
    assert "has the credentials of an App already. --force replaces them." in result.stderr
    assert path.read_text() == "IMQ_GITHUB_APP_ID=77\n"


def test_commands_read_the_file_of_their_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After `imq setup`, `imq run` needs no further step; a file that is no text is reported in a sentence."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("IMQ_TRIGGER_LABEL=from the file\n")
    assert host.queue_settings().trigger_label == "from the file"
    (tmp_path / ".env").write_bytes(b"\xff\xfe")
    (tmp_path / "imq.yml").write_text("enabled: true\n")
    result = CliRunner().invoke(main.main, ["validate", "imq.yml"])
    assert result.exit_code == 2
    assert ".env cannot be read" in result.stderr
