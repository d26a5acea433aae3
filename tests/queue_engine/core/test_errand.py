from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import Database


@pytest.fixture
async def counted(tmp_path: Path) -> Any:
    """A connection, and its trips to its thread so far."""
    database = Database(f"sqlite:///{tmp_path / 'errands.db'}")
    async with database.transaction() as connection:
        trips = await _watched(connection)
        await connection.execute(text("CREATE TABLE things (id INTEGER PRIMARY KEY, name TEXT UNIQUE)"))
        await connection.execute(text("INSERT INTO things (name) VALUES ('one'), ('two')"))
        trips.clear()
        yield connection, trips
    await database.close()


async def _watched(connection: AsyncConnection) -> list[object]:
    driver: Any = (await connection.get_raw_connection()).driver_connection
    go: Callable[..., Awaitable[Any]] = driver._execute
    trips: list[object] = []

    async def watched(work: object, *args: object) -> Any:
        trips.append(work)
        return await go(work, *args)

    driver._execute = watched
    return trips


@pytest.mark.parametrize(
    ("statement", "rows"),
    [
        ("SELECT name FROM things ORDER BY id", [("one",), ("two",)]),
        ("INSERT INTO things (name) VALUES ('three') RETURNING id", [(3,)]),
    ],
)
async def test_statement_with_rows_is_one_trip_to_the_thread(
    counted: tuple[AsyncConnection, list[object]], statement: str, rows: list[tuple[Any, ...]]
) -> None:
    """A statement costs one change of threads and back, however many rows it has."""
    connection, trips = counted
    assert [tuple(row) for row in await connection.execute(text(statement))] == rows
    assert len(trips) == 1


async def test_statement_for_many_tells_how_many_it_changed(counted: tuple[AsyncConnection, list[object]]) -> None:
    """One statement for many values is one errand, too, and tells of all of them."""
    connection, trips = counted
    renamed = text("UPDATE things SET name = :new WHERE name = :old")
    changed = await connection.execute(renamed, [{"old": "one", "new": "1"}, {"old": "two", "new": "2"}])
    assert (changed.rowcount, len(trips)) == (2, 1)


async def test_statement_that_fails_harms_no_later_one(counted: tuple[AsyncConnection, list[object]]) -> None:
    """What SQLite refuses is raised as SQLAlchemy names it, and the transaction goes on."""
    connection, _ = counted
    with pytest.raises(IntegrityError):
        await connection.execute(text("INSERT INTO things (name) VALUES ('one')"))
    assert (await connection.execute(text("SELECT count(*) FROM things"))).scalar_one() == 2
