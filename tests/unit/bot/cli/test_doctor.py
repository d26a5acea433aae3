"""`imq doctor` as an operator types it: text, JSON, and the exit code."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from structlog.testing import capture_logs

from bot.cli import host, main
from queue_engine.core.database.database import Database
from queue_engine.migrations import migrate
from tests.unit.bot.doctor.installation import NAME, Place, a_place, a_receiver

SECRET = "s3cret-0123456789abcdef"


@pytest.fixture
async def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Place]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(host, "configure", lambda *_: None)
    async with a_place(tmp_path / "github") as place, a_receiver(SECRET, place.app.id) as address:
        place.app.webhook_url = address
        yield place


async def imq(place: Place, *arguments: str, migrated: bool = True, **settings: str) -> Result:
    """Run the command beside the emulator, on a database in the working directory."""
    if migrated:
        database = Database("sqlite:///imq.db")
        await migrate(database)
        await database.close()
    environ = {
        "IMQ_GITHUB_APP_ID": str(place.app.id),
        "IMQ_GITHUB_PRIVATE_KEY": place.app.private_key,
        "IMQ_GITHUB_WEBHOOK_SECRET": SECRET,
        "IMQ_GITHUB_API_URL": place.server.url,
        "IMQ_PUBLIC_URL": str(place.app.webhook_url).removesuffix("/webhook"),
        "DATABASE_URL": "sqlite:///imq.db",
    }
    runner = CliRunner(env=environ | settings)
    with capture_logs():
        return await asyncio.to_thread(runner.invoke, main.main, ["doctor", *arguments], catch_exceptions=False)


async def test_sound_installation_exits_with_zero(place: Place) -> None:
    """A cron job or a deploy script goes by the code."""
    result = await imq(place)
    assert (result.exit_code, result.output) == (0, "No findings. Repositories examined: 1.\n")


async def test_findings_are_text_or_json_and_exit_with_one(place: Place) -> None:
    """The same findings for people and programs."""
    place.repository.record.allow_auto_merge = True
    shown = await imq(place, "--repository", NAME.upper())
    assert shown.exit_code == 1
    assert f"{NAME}: The repository allows auto-merge.\n  Effect: " in shown.output
    result = await imq(place, "--json")
    assert result.exit_code == 1
    (finding,) = json.loads(result.output)["findings"]
    assert (finding["code"], finding["subject"]) == ("auto_merge_enabled", NAME)


async def test_database_that_is_missing_is_a_finding_and_stays_missing(place: Place, tmp_path: Path) -> None:
    """The command changes nothing."""
    result = await imq(place, migrated=False)
    assert result.exit_code == 1
    assert "There is no database imq.db" in result.output
    assert not (tmp_path / "imq.db").exists()


async def test_unknown_repository_and_bad_settings_exit_with_two(place: Place) -> None:
    """The command cannot run, and says why."""
    result = await imq(place, "--repository", "acme/unknown")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("Error: The App does not see acme/unknown.")
    assert (await imq(place, IMQ_GITHUB_APP_ID="none")).exit_code == 2


async def test_way_between_github_and_imq_is_examined(place: Place) -> None:
    """GitHub has the right address, but the IMQ there has another secret."""
    result = await imq(place, IMQ_GITHUB_WEBHOOK_SECRET="another-0123456789abcdef")
    assert result.exit_code == 1
    assert "has another webhook secret than these settings" in result.output
