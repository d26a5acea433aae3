"""Statements that were prepared answer and fail as SQLAlchemy's own executions of them do, on both databases."""

import asyncio
import contextlib
import gc
from datetime import UTC, datetime
from typing import Any

import pytest
from sqlalchemy import Column, Executable, Integer, String, Table, bindparam, literal, select, text
from sqlalchemy.exc import DBAPIError, IntegrityError, StatementError

from queue_engine.core.database import cached_query
from queue_engine.core.database.database import Database, DatabaseInstant, metadata
from queue_engine.core.jobs.job_table import jobs

NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)
TIMES = 4
"""Twice as SQLAlchemy runs it, and twice prepared."""


def is_prepared(statement: Executable) -> bool:
    """Whether a statement is run without SQLAlchemy by now."""
    return any(cached_query._PREPARED[statement].values())


@pytest.fixture
async def letters(database: Database) -> Any:
    """A table with a name that must be unique, and an instant; emptied with its database."""
    table = Table(
        "prepared_letters",
        type(metadata)(),
        Column("id", Integer, primary_key=True),
        Column("name", String, unique=True),
        Column("at", DatabaseInstant),
    )
    async with database.transaction() as connection:
        await connection.run_sync(table.create)
    yield table
    async with database.transaction() as connection:
        await connection.run_sync(table.drop)


async def test_statement_answers_the_same_rows_each_time(database: Database, letters: Any) -> None:
    """Values are converted in and out, constants stay, and rows are read by name, attribute and position."""
    store = letters.insert().returning(letters.c.id)
    find = select(letters, literal("said").label("word")).where(letters.c.name == bindparam("its_name"))
    change = letters.update().where(letters.c.name != "nobody").values(at=NOON)
    for time in range(TIMES):
        async with database.transaction() as connection:
            number = (await connection.execute(store, {"name": f"n{time}", "at": NOON})).scalar_one()
            assert (await connection.execute(change)).rowcount == time + 1
        async with database.reading() as connection:
            found = await connection.execute(find, {"its_name": f"n{time}"})
            row = found.one()
            assert row == (number, f"n{time}", NOON, "said")
            assert (row.at, row._mapping["word"]) == (NOON, "said")
            assert (await connection.execute(find, {"its_name": "nobody"})).one_or_none() is None
    assert all(is_prepared(statement) for statement in (store, find, change))


async def test_parameters_given_decide_how_a_statement_runs(database: Database, letters: Any) -> None:
    """A column that is left out once is left out, although the same statement had it before."""
    store = letters.insert()
    for time in range(TIMES):
        async with database.transaction() as connection:
            await connection.execute(store, {"name": f"with {time}", "at": NOON})
            await connection.execute(store, {"name": f"without {time}"})
    async with database.reading() as connection:
        rows = (await connection.execute(select(letters.c.name, letters.c.at).order_by(letters.c.id))).all()
    assert [at for name, at in rows if name.startswith("with ")] == [NOON] * TIMES
    assert [at for name, at in rows if name.startswith("without ")] == [None] * TIMES


async def test_lists_of_any_length_and_several_rows_are_left_to_sqlalchemy(database: Database, letters: Any) -> None:
    """Their text differs from execution to execution."""
    named = select(letters.c.name).where(letters.c.name.in_(bindparam("names", expanding=True))).order_by(letters.c.id)
    store = letters.insert()
    async with database.transaction() as connection:
        for time in range(TIMES):
            await connection.execute(store, [{"name": f"{time}a"}, {"name": f"{time}b"}])
            names = [f"{each}a" for each in range(time + 1)]
            assert (await connection.execute(named, {"names": names})).scalars().all() == names
    assert not is_prepared(named)


async def test_errors_are_sqlalchemys(database: Database, letters: Any) -> None:
    """A constraint that does not hold, a parameter that is missing or wrong: the same error each time."""
    store = letters.insert()
    find = select(letters.c.id).where(letters.c.at == bindparam("its_at"))
    async with database.transaction() as connection:
        await connection.execute(store, {"name": "one", "at": NOON})
    for _ in range(TIMES):
        with pytest.raises(IntegrityError):
            async with database.transaction() as connection:
                await connection.execute(store, {"name": "one", "at": NOON})
        async with database.reading() as connection:
            await connection.execute(find, {"its_at": NOON})
        with pytest.raises(StatementError, match="a naive datetime is no instant"):
            async with database.reading() as connection:
                await connection.execute(find, {"its_at": datetime(2026, 1, 1)})  # noqa: DTZ001 - the point of it
        with pytest.raises(StatementError, match="its_at"):
            async with database.reading() as connection:
                await connection.execute(find)
    # A transaction that failed left the connection as good as new.
    for time in range(TIMES):
        async with database.transaction() as connection:
            await connection.execute(store, {"name": f"again {time}", "at": NOON})
    assert is_prepared(store)


async def test_prepared_statement_reads_one_instant_of_the_database(database: Database, letters: Any) -> None:
    """Also as the first of its transaction it begins one, and it is rolled back with it."""
    store, count = letters.insert(), select(letters.c.name)
    for _ in range(TIMES):
        async with database.reading() as reading:
            before = (await reading.execute(count)).all()
            async with database.transaction() as connection:
                await connection.execute(store, {"name": f"{len(before)}"})
            assert (await reading.execute(count)).all() == before
        with contextlib.suppress(ZeroDivisionError):
            async with database.transaction() as connection:
                await connection.execute(store, {"name": "rolled back"})
                raise ZeroDivisionError
    async with database.reading() as reading:
        assert len((await reading.execute(count)).all()) == TIMES


@pytest.mark.postgres
async def test_statement_cancelled_while_it_runs_gives_its_connection_up(postgres_database: Database) -> None:
    """What the server may still be doing on that connection is nobody else's; the next gets another connection."""
    waits = text("SELECT pg_sleep(:seconds), pg_backend_pid()")
    asleep = text("SELECT pid FROM pg_stat_activity WHERE wait_event = 'PgSleep' AND datname = current_database()")

    async def wait(seconds: int) -> int:
        async with postgres_database.reading() as connection:
            return int((await connection.execute(waits, {"seconds": seconds})).one()[1])

    for _ in range(TIMES):
        await wait(0)
    assert is_prepared(waits)
    waiting, pids = asyncio.create_task(wait(60)), list[int]()
    while not pids:
        async with postgres_database.reading() as connection:
            pids = list((await connection.execute(asleep)).scalars())
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    async with postgres_database.reading():
        assert not {await wait(0), *await asyncio.gather(wait(0), wait(0))} & set(pids)


@pytest.mark.postgres
async def test_connection_that_was_cut_is_told_as_such(postgres_database: Database) -> None:
    """A prepared statement on a connection that the server ended is SQLAlchemy's error, and the next one connects."""
    own = text("SELECT pg_backend_pid()")
    for _ in range(TIMES):
        async with postgres_database.reading() as connection:
            pid = (await connection.execute(own)).scalar_one()
    async with postgres_database.reading() as connection:
        await connection.execute(own)
        async with postgres_database.transaction() as other:
            await other.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": pid})
        with pytest.raises(DBAPIError) as told:
            await connection.execute(own)
    assert told.value.connection_invalidated
    async with postgres_database.reading() as connection:
        assert (await connection.execute(own)).scalar_one() != pid


async def test_statements_made_for_one_execution_are_forgotten(sqlite_database: Database) -> None:
    """Nothing is kept of a statement that is gone."""
    async with sqlite_database.reading() as connection:
        await connection.execute(select(jobs.c.seq).where(jobs.c.seq == 1))
        gc.collect()
        before = len(cached_query._PREPARED)
        for number in range(20):
            statement = select(jobs.c.seq).where(jobs.c.seq == number)
            for _ in range(TIMES):
                await connection.execute(statement)
        del statement
    gc.collect()
    assert len(cached_query._PREPARED) <= before
