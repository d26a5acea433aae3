import asyncio
from pathlib import Path

import pytest
from sqlalchemy import text

from queue_engine.core.database.database import Checkpoints, Database
from tests.support.real_time import LIMIT


@pytest.fixture
async def sqlite(tmp_path: Path) -> Database:
    database = Database(f"sqlite:///{tmp_path / 'imq.db'}")
    async with database.transaction() as connection:
        await connection.execute(text("CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)"))
    return database


async def _write(database: Database, times: int) -> None:
    for _ in range(times):
        async with database.transaction() as connection:
            await connection.execute(text("INSERT INTO notes (said) VALUES (hex(randomblob(2000)))"))


async def _checkpointed(database: Database) -> None:
    assert database._checkpoints is not None
    await database._checkpoints.close()


async def test_log_is_carried_over_beside_the_writer(sqlite: Database, tmp_path: Path) -> None:
    """However much is written, the log stays short, although no commit carries it over itself."""
    assert sqlite._checkpoints is not None
    sizes = []
    for _ in range(8):
        await _write(sqlite, 1)
        while sqlite._checkpoints._commits:
            await _write(sqlite, 1)
        await _checkpointed(sqlite)
        sizes.append((tmp_path / "imq.db-wal").stat().st_size)
    await sqlite.close()
    assert max(sizes) <= 1.5 * sizes[0]


async def test_log_that_is_never_left_a_gap_is_bounded_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where commits follow each other without end, SQLite's own bound holds."""
    monkeypatch.setattr("queue_engine.core.database.database._LOG_PAGES", 100)
    monkeypatch.setattr(Checkpoints, "committed", lambda self: None)
    database = Database(f"sqlite:///{tmp_path / 'imq.db'}")
    async with database.transaction() as connection:
        await connection.execute(text("CREATE TABLE notes (id INTEGER PRIMARY KEY, said TEXT)"))
    await _write(database, 300)
    assert (tmp_path / "imq.db-wal").stat().st_size <= 120 * 4096
    await database.close()


async def test_writers_do_not_wait_for_the_log_to_be_carried_over(
    sqlite: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A disk that takes for ever to flush the log holds up no commit."""
    stuck, carried_over = asyncio.Event(), Checkpoints._checkpoint

    async def slowly(self: Checkpoints) -> None:
        await stuck.wait()
        await carried_over(self)

    monkeypatch.setattr(Checkpoints, "_checkpoint", slowly)
    async with asyncio.timeout(LIMIT):
        await _write(sqlite, 200)
        stuck.set()
        await sqlite.close()


async def test_log_that_cannot_be_carried_over_now_stops_no_work(sqlite: Database, tmp_path: Path) -> None:
    """A reader of an old state keeps the log from being reused; the log is carried over after it ends."""
    async with sqlite.reading() as reader:
        await reader.execute(text("SELECT count(*) FROM notes"))
        await _write(sqlite, 130)
        await _checkpointed(sqlite)
    grown = (tmp_path / "imq.db-wal").stat().st_size
    await _write(sqlite, 130)
    await _checkpointed(sqlite)
    assert (tmp_path / "imq.db-wal").stat().st_size <= 2 * grown
    async with sqlite.reading() as reader:
        assert (await reader.execute(text("SELECT count(*) FROM notes"))).scalar_one() == 260
    await sqlite.close()
