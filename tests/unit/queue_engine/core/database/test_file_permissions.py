"""SQLite's file is its owner's alone, whatever the surroundings allow."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from queue_engine.core.database.database import Database, keep_private
from queue_engine.migrations import migrate


@pytest.fixture(autouse=True)
def _generous_umask() -> Iterator[None]:
    """As careless as an account can be."""
    before = os.umask(0)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    return {path.name: stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}


async def test_database_and_its_companions_are_made_for_their_owner_alone(tmp_path: Path) -> None:
    """Another account on the machine reads no digest of a token, and no comment of a private repository."""
    database = Database(f"sqlite:///{tmp_path / 'imq.db'}")
    await migrate(database)
    assert modes(tmp_path) == {"imq.db": 0o600, "imq.db-wal": 0o600, "imq.db-shm": 0o600}
    await database.close()


async def test_database_that_others_may_read_becomes_private(tmp_path: Path) -> None:
    """With what a process left behind that was killed."""
    for name in ("imq.db", "imq.db-wal", "imq.db-shm"):
        (tmp_path / name).touch(0o666)
    database = Database(f"sqlite:///{tmp_path / 'imq.db'}")
    await database.ping()
    assert set(modes(tmp_path).values()) == {0o600}
    await database.close()


def test_file_of_another_user_is_named_in_the_log(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """IMQ runs on, and its operator knows."""
    file = tmp_path / "imq.db"
    file.touch(0o644)

    def refuse(_path: Path, _mode: int) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "chmod", refuse)
    with capture_logs() as logs:
        keep_private(str(file))
    assert [(line["event"], line["file"]) for line in logs] == [("database_readable_by_others", str(file))]


def test_file_in_a_folder_that_is_missing_is_left_to_sqlite(tmp_path: Path) -> None:
    """Its own words say what is wrong."""
    keep_private(str(tmp_path / "missing" / "imq.db"))
    assert list(tmp_path.iterdir()) == []
