"""SQLite's file belongs to one process, and a sentence says why another process cannot use the file."""

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bot.process.sqlite_file import FileRefused, StartRefused, exclusive
from tests.support.plain_words import faults


def refusal(url: str) -> str:
    """The sentence for the operator."""
    with pytest.raises(StartRefused) as refused, exclusive(url, "run"):
        pass
    assert list(faults(str(refused.value))) == []
    return str(refused.value)


def test_second_process_is_refused_with_the_name_of_the_first(tmp_path: Path) -> None:
    """Its command, its id and since when it runs; when it has ended, the file is free at once."""
    url = f"sqlite:///{tmp_path / 'imq.db'}"
    with exclusive(url, "run"):
        refused = refusal(url)
    assert f"`imq run`, process {os.getpid()} on " in refused
    assert "PostgreSQL" in refused
    with exclusive(url, "web"), pytest.raises(FileRefused, match="`imq web`"), exclusive(url, "worker"):
        pass


def test_lock_is_its_owners_alone(tmp_path: Path) -> None:
    """Like the database beside it."""
    with exclusive(f"sqlite:///{tmp_path / 'imq.db'}", "run"):
        assert (tmp_path / "imq.db-lock").stat().st_mode & 0o777 == 0o600


def test_other_databases_are_shared() -> None:
    """A server serves many processes."""
    url = "postgresql://ada@db.example.com/imq"
    with exclusive(url, "run"), exclusive(url, "web"):
        pass


def test_directory_that_is_missing_is_named(tmp_path: Path) -> None:
    """SQLite itself would say that it cannot open the file."""
    refused = refusal(f"sqlite:///{tmp_path / 'nowhere' / 'imq.db'}")
    assert str(tmp_path / "nowhere") in refused
    assert "create it" in refused


def test_directory_in_place_of_a_file_is_named(tmp_path: Path) -> None:
    """A volume's mount point is the usual mistake."""
    assert f"names the directory {tmp_path}" in refusal(f"sqlite:///{tmp_path}")


@pytest.mark.parametrize("read_only", ["imq.db", ""])
def test_file_or_directory_that_is_read_only_is_named(
    tmp_path: Path, read_only: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The tests may run as root, who may write all but a file system that is mounted read-only."""
    (tmp_path / "imq.db").touch()
    place, access = tmp_path / read_only, os.access
    monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != place and access(path, mode))
    with pytest.raises(FileRefused, match=f"{place} is read-only"), exclusive(f"sqlite:///{tmp_path}/imq.db", "run"):
        pass


def test_lock_that_cannot_be_created_is_a_directory_that_cannot_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some file systems say so only when they are written to."""

    def refuse(*_: Any) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    monkeypatch.setattr(os, "open", refuse)
    assert f"{tmp_path} is read-only" in refusal(f"sqlite:///{tmp_path}/imq.db")


def test_file_system_without_locks_is_used_without_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log says that a second process would not be noticed."""

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOLCK, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with capture_logs() as logs, exclusive(f"sqlite:///{tmp_path}/imq.db", "run"):
        pass
    assert [(line["event"], line["error"]) for line in logs] == [("database_not_locked", "ENOLCK")]
