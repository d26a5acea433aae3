"""Commands without a usable database say so in one sentence."""

import os
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from bot.cli import host
from tests.unit.bot.cli.imq import Imq


def on(imq: Imq, url: str) -> Imq:
    return Imq(imq.environ | {"DATABASE_URL": url})


COMMANDS = pytest.mark.parametrize(
    "command", [["token", "list"], ["jobs", "list"], ["jobs", "retry", "--all"], ["resume", "acme/widgets"]]
)


@COMMANDS
def test_missing_file_is_reported_and_not_created(imq: Imq, tmp_path: Path, command: list[str]) -> None:
    """An operator in the wrong directory gets no empty database there."""
    result = on(imq, f"sqlite:///{tmp_path / 'elsewhere.db'}")(*command)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: No database ")
    assert not (tmp_path / "elsewhere.db").exists()


@COMMANDS
def test_database_without_tables_is_reported(
    imq: Imq, empty_database_url: str, tmp_path: Path, command: list[str]
) -> None:
    """The sentence names the command that is missing."""
    (tmp_path / "empty.db").touch()
    result = on(imq, empty_database_url)(*command)
    expected = "Error: The database has another version. Run `imq migrate`.\n"
    assert (result.exit_code, result.stderr) == (2, expected)


@COMMANDS
def test_database_that_does_not_answer_is_reported_without_its_address(imq: Imq, command: list[str]) -> None:
    """No traceback, no password."""
    result = on(imq, "postgresql://imq:hunter2@127.0.0.1:9/imq")(*command)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: The database does not answer. ")
    assert "hunter2" not in result.stderr


def test_migration_in_a_missing_directory_says_what_to_do(imq: Imq, tmp_path: Path) -> None:
    """SQLite itself would say that the database does not answer."""
    result = on(imq, f"sqlite:///{tmp_path / 'nowhere' / 'imq.db'}")("migrate")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith(
        f"Error: The directory {tmp_path / 'nowhere'} of the database imq.db does not exist"
    )


@pytest.mark.parametrize("command", [["migrate"], ["token", "list"]])
def test_command_on_a_read_only_directory_says_what_to_do(
    imq: Imq, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, who may write all but a file system that is mounted read-only."""
    (tmp_path / "closed.db").touch()
    access = os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != tmp_path and access(path, mode))
    result = on(imq, f"sqlite:///{tmp_path / 'closed.db'}")(*command)
    assert result.exit_code == 2
    assert result.stderr.startswith(f"Error: The database cannot be written: {tmp_path} is read-only for IMQ's user.")


@pytest.mark.parametrize("command", [["run"], ["token", "list"]])
def test_settings_file_that_cannot_be_read_is_named(
    imq: Imq, tmp_path: Path, command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A process that a supervisor starts ends with the code of a refused start."""
    monkeypatch.chdir(tmp_path)
    Path(".env").write_bytes(b"\xff\xfe")
    result = imq(*command)
    assert result.exit_code == 2
    assert result.stderr.startswith("Error: .env cannot be read: ")


def test_settings_that_are_missing_are_all_named(imq: Imq) -> None:
    """Exit code 2, as for every command; one that works on the database needs no credentials."""
    result = Imq(imq.environ | {"IMQ_GITHUB_APP_ID": None, "PORT": "http"})("token", "list")
    assert result.exit_code == 2
    assert "IMQ_GITHUB_APP_ID" not in result.stderr
    assert "PORT" in result.stderr


def test_unknown_variable_is_logged_once_and_a_misspelt_one_is_refused(imq: Imq) -> None:
    """The operator learns that a setting has no effect."""
    with capture_logs() as logs:
        assert Imq(imq.environ | {"IMQ_REGION": "eu"})("token", "list").exit_code == 0
    assert [(line["event"], line["names"]) for line in logs] == [("unknown_settings", "IMQ_REGION")]
    misspelt = Imq(imq.environ | {"IMQ_METRIC": "token"})("token", "list")
    assert misspelt.exit_code == 2
    assert "  - IMQ_METRIC is no setting of IMQ: did you mean IMQ_METRICS?\n" in misspelt.stderr


def test_repository_without_its_owner_is_refused(imq: Imq) -> None:
    """`imq resume acme main` looked for a repository called acme."""
    result = imq("resume", "acme", "main")
    assert result.exit_code == 2
    assert "write OWNER/REPO, such as acme/rocket" in result.stderr


@pytest.mark.parametrize(("chosen", "used"), [("info", "warning"), ("error", "error"), ("debug", "debug")])
def test_command_that_answers_on_the_console_logs_warnings_at_most(
    imq: Imq, monkeypatch: pytest.MonkeyPatch, chosen: str, used: str
) -> None:
    """Between the words of `imq token create` no lines of JSON are in the way."""
    levels: list[str] = []
    monkeypatch.setattr(host, "configure", lambda level, _: levels.append(level))
    assert Imq(imq.environ | {"IMQ_LOG_LEVEL": chosen})("token", "list").exit_code == 0
    assert levels == [used]
