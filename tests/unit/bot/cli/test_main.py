"""The command line as an operator meets it."""

import os
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from bot.cli import host, main
from bot.process import lifecycle
from bot.process.sqlite_file import FileRefused, NotListening, NotMigrated
from bot.settings.environment import Settings
from queue_engine import migrations
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import OutageKind
from tests.support.plain_words import faults
from tests.support.real_time import LIMIT


@pytest.fixture
def environ(pem: str) -> dict[str, str | None]:
    return {
        "IMQ_GITHUB_APP_ID": "77",
        "IMQ_GITHUB_PRIVATE_KEY": pem,
        "IMQ_GITHUB_WEBHOOK_SECRET": "s3cret-0123456789abcdef",
        "PORT": "0",
    }


@pytest.fixture(autouse=True)
def _logging_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "configure", lambda *_: None)


@pytest.mark.parametrize(
    ("command", "parts"),
    [
        ("run", {"web": True, "worker": True}),
        ("web", {"web": True, "worker": False}),
        ("worker", {"web": False, "worker": True}),
    ],
)
def test_command_starts_its_parts(
    environ: dict[str, str | None], monkeypatch: pytest.MonkeyPatch, command: str, parts: dict[str, bool]
) -> None:
    """One process for all, or one each; a free port is known before, and named in the public address."""
    started: list[Any] = []

    async def run(settings: Settings, *, bound: socket.socket | None, **which: bool) -> None:
        started.append((settings.github_app_id, which))
        assert (bound is not None) == which["web"]
        if bound is not None:
            assert settings.public_url == f"http://127.0.0.1:{bound.getsockname()[1]}"

    monkeypatch.setattr(lifecycle, "run", run)
    here = {"IMQ_BIND": "127.0.0.1", "IMQ_PUBLIC_URL": "http://127.0.0.1:0/"}
    result = CliRunner(env=environ | here).invoke(main.main, [command])
    assert (result.exit_code, started) == (0, [("77", parts)])


def test_migrate_command_migrates(environ: dict[str, str | None], monkeypatch: pytest.MonkeyPatch) -> None:
    """The platform's release phase calls it."""
    migrated: list[str] = []

    async def migrate(database: Database) -> None:
        migrated.append(database.url.render_as_string(hide_password=False))

    monkeypatch.setattr(migrations, "migrate", migrate)
    result = CliRunner(env={**environ, "DATABASE_URL": "postgres://u:p@db/imq"}).invoke(main.main, ["migrate"])
    assert (result.exit_code, migrated) == (0, ["postgresql+psycopg://u:p@db/imq"])
    assert result.output == "The database has the tables of this version.\n"


@pytest.mark.parametrize("problem", [NotMigrated, NotListening, FileRefused])
def test_process_that_cannot_start_says_so_without_a_traceback(
    problem: type[Exception], environ: dict[str, str | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The sentence says what the operator does about it."""

    async def run(_settings: Settings, **_which: bool) -> None:
        raise problem("run `imq migrate` first")

    monkeypatch.setattr(lifecycle, "run", run)
    result = CliRunner(env=environ).invoke(main.main, ["worker"])
    assert result.exit_code == 2
    assert result.stderr == "Error: run `imq migrate` first\n"


@pytest.mark.parametrize("command", ["run", "web", "worker"])
def test_settings_missing_are_named_on_stderr_with_exit_code_two(command: str) -> None:
    """As the operator's contract has it: readable, complete, no traceback."""
    missing: dict[str, str | None] = {"IMQ_GITHUB_APP_ID": None, "IMQ_GITHUB_PRIVATE_KEY": None, "PORT": "http"}
    result = CliRunner(env=missing).invoke(main.main, [command])
    assert result.exit_code == 2
    assert result.stdout == ""
    for name in ("IMQ_GITHUB_APP_ID", "IMQ_GITHUB_PRIVATE_KEY", "PORT"):
        assert name in result.stderr
    assert ("IMQ_GITHUB_WEBHOOK_SECRET" in result.stderr) == (command != "worker")


@pytest.mark.process
def test_module_run_without_settings_prints_no_traceback() -> None:
    """`python -m bot web` is what the Procfile starts."""
    environ = {name: value for name, value in os.environ.items() if not name.startswith("IMQ_")}
    done = subprocess.run(
        [sys.executable, "-m", "bot", "web"], env=environ, capture_output=True, text=True, timeout=LIMIT
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("IMQ cannot start with these settings:\n  - IMQ_GITHUB_APP_ID is missing")


def test_help_names_every_command_of_the_contract() -> None:
    """The commands that are built, each with a sentence."""
    assert isinstance(main.main, click.Group)
    assert set(main.main.commands) == {
        "reland",
        "revert",
        "run",
        "doctor",
        "web",
        "worker",
        "migrate",
        "resume",
        "demo",
        "token",
        "jobs",
        "validate",
        "convert",
        "setup",
        "shadow",
        "sinks",
        "export",
        "import",
        "backup",
        "login",
        "logout",
        "land",
        "status",
        "why",
        "effect",
        "flaky",
        "audit",
        "verify",
        "replay",
        "landings",
        "skill",
        "mcp",
    }
    assert all(command.get_short_help_str() for command in main.main.commands.values())


def test_version_is_that_of_the_package() -> None:
    """For reports of faults."""
    result = CliRunner().invoke(main.main, ["--version"])
    assert result.output.startswith("imq, version ")


@pytest.mark.parametrize("command", [["migrate"], ["web"], ["resume", "acme/widgets"]])
def test_command_on_a_database_that_refuses_it_says_so_in_a_sentence(
    environ: dict[str, str | None], tmp_path: Path, command: list[str]
) -> None:
    """The output says how to fix it, and has no traceback through the drivers."""
    (tmp_path / "imq.db").write_bytes(b"not a database" * 300)
    result = CliRunner(env=environ | {"DATABASE_URL": f"sqlite:///{tmp_path / 'imq.db'}"}).invoke(main.main, command)
    assert (result.exit_code, result.output) == (2, f"Error: {OutageKind.CORRUPT.sentence}\n")


def test_demo_without_its_libraries_says_where_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """A production install has neither the demo nor the emulator."""
    monkeypatch.setitem(sys.modules, "imq_demo.run", None)
    result = CliRunner().invoke(main.main, ["demo"])
    assert result.exit_code == 2
    assert result.output.startswith("Error: The demo is not installed: get it by `pip install 'imq[demo]'`")


def _helps(command: click.Command) -> Iterator[str]:
    """What a command, its options and its own commands say of themselves."""
    yield command.help or ""
    yield from (option.help or "" for option in command.params if isinstance(option, click.Option))
    for inner in command.commands.values() if isinstance(command, click.Group) else ():
        yield from _helps(inner)


def test_help_of_every_command_is_short_sentences_in_plain_words() -> None:
    """An operator meets no sentence of more than 25 words, and no metaphor."""
    assert [fault for text in _helps(main.main) for fault in faults(text)] == []


def test_help_lists_every_command_in_its_group() -> None:
    """A newcomer finds where to begin, and an author finds what works in any clone."""
    shown = CliRunner().invoke(main.main, ["--help"]).output
    groups = [
        shown.index(title) for title in ("Start here:", "Operate:", "On any clone:", "For authors, in any clone:")
    ]
    assert groups == sorted(groups)
    assert [name for name in main.main.commands if f"\n  {name} " not in shown] == []


@pytest.mark.process
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["audit", "--help"],
        ["verify", "--help"],
        ["status", "--help"],
        ["why", "--help"],
        ["land", "--help"],
    ],
)
def test_help_and_commands_of_authors_start_without_the_server(arguments: list[str]) -> None:
    """They answer at once: what they import is a small part of the program."""
    code = (
        "import sys; from bot.cli.main import main; main(sys.argv[1:], standalone_mode=False);"
        "print(*({'pydantic', 'sqlalchemy', 'aiohttp', 'jinja2', 'queue_engine'} & set(sys.modules)), file=sys.stderr)"
    )
    ended = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
    assert ended.stderr.strip() == ""
