import asyncio
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import aiosqlite
import pytest
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, StatementError

from queue_engine.core.database import database as module
from queue_engine.core.database.database import Database, _Compiled, database_url
from queue_engine.core.jobs.job_store import Jobs
from tests.support.claims import claim_one
from tests.support.databases import MakeUrl, PostgresServer
from tests.support.unfinished_jobs import unfinished_jobs

NOW = datetime(2026, 3, 29, 1, 30, 0, 123456, tzinfo=UTC)


@pytest.mark.parametrize(
    ("given", "understood"),
    [
        ("sqlite:///imq.db", "sqlite+aiosqlite:///imq.db"),
        ("sqlite:////data/imq.db", "sqlite+aiosqlite:////data/imq.db"),
        ("postgres://u:p@h:5432/d", "postgresql+psycopg://u:p@h:5432/d"),
        ("postgresql://u:p@h/d?sslmode=require", "postgresql+psycopg://u:p@h/d?sslmode=require"),
        ("postgres://u@/d?host=/run/pg&sslmode=disable", "postgresql+psycopg://u@/d?host=%2Frun%2Fpg&sslmode=disable"),
    ],
)
def test_database_url_as_platforms_write_it_is_understood(given: str, understood: str) -> None:
    """Both spellings of PostgreSQL and a SQLite file are accepted, and every query parameter is kept."""
    assert database_url(given).render_as_string(hide_password=False) == understood


@pytest.mark.parametrize("given", ["", "imq.db", "mysql://u:secret@h/d", "postgresql+asyncpg://u:secret@h/d"])
def test_database_url_of_another_kind_is_refused_without_showing_the_password(given: str) -> None:
    """What IMQ cannot use is refused with a sentence that says what it can."""
    with pytest.raises(ValueError, match=r"sqlite:///.* postgresql://") as refused:
        database_url(given)
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize("given", ["sqlite://", "sqlite:///:memory:"])
def test_database_url_in_memory_is_refused(given: str) -> None:
    """A queue that would be lost at every restart is refused."""
    with pytest.raises(ValueError, match="kept in memory"):
        database_url(given)


async def test_transaction_with_an_exception_leaves_nothing(database: Database) -> None:
    """A transaction is whole or not at all."""
    with pytest.raises(RuntimeError):
        await _enqueue_and_fail(database)
    async with database.reading() as connection:
        assert await unfinished_jobs(Jobs(connection)) == 0


async def _enqueue_and_fail(database: Database) -> None:
    async with database.transaction() as connection:
        await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)
        raise RuntimeError


async def test_transaction_cancelled_half_way_leaves_nothing_and_frees_its_connection(database: Database) -> None:
    """A cancelled task gives its connection back, and what it had written is gone."""
    entered = asyncio.Event()

    async def linger() -> None:
        async with database.transaction() as connection:
            await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)
            entered.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(linger())
    await entered.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    async with database.transaction() as connection:
        assert await unfinished_jobs(Jobs(connection)) == 0


async def test_reading_refuses_to_write(database: Database) -> None:
    """What is opened for reading cannot write by mistake."""
    async with database.reading() as connection:
        with pytest.raises(DBAPIError, match=r"readonly|read-only"):
            await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)


async def test_reading_sees_one_instant_while_others_write(database: Database) -> None:
    """Two statements of one reading never see two states."""
    async with database.reading() as reader:
        before = await unfinished_jobs(Jobs(reader))
        async with database.transaction() as writer:
            await Jobs(writer).enqueue(kind="k", request={}, process_id="p", now=NOW)
        assert await unfinished_jobs(Jobs(reader)) == before
    async with database.reading() as reader:
        assert await unfinished_jobs(Jobs(reader)) == before + 1


async def test_instants_come_back_in_utc_to_the_microsecond(database: Database) -> None:
    """An instant given in any zone comes back as the same instant, in UTC."""
    elsewhere = NOW.astimezone(timezone(timedelta(hours=5, minutes=30)))
    async with database.transaction() as connection:
        jobs = Jobs(connection)
        await jobs.enqueue(kind="k", request={}, process_id="p", now=elsewhere)
        job = await claim_one(jobs, owner="w", now=NOW, lease=timedelta(seconds=1))
        due = await jobs.next_due()
    assert job is not None
    assert (job.created_at, job.created_at.utcoffset()) == (NOW, timedelta(0))
    assert due == NOW + timedelta(seconds=1)


async def test_instants_without_a_zone_are_refused(database: Database) -> None:
    """A naive datetime is a mistake, not a guess."""
    async with database.transaction() as connection:
        with pytest.raises(StatementError, match="naive"):
            await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW.replace(tzinfo=None))


async def test_ping_answers_while_the_database_is_there(database: Database) -> None:
    """A sign of life."""
    await database.ping()


@pytest.mark.postgres
async def test_ping_without_its_database_raises(postgres_server: PostgresServer) -> None:
    """A database that is gone is noticed."""
    absent = Database(postgres_server.url("imq_absent"))
    with pytest.raises(DBAPIError, match="imq_absent"):
        await absent.ping()
    await absent.close()


@pytest.mark.postgres
async def test_postgres_connection_is_tested_before_its_use_only_if_it_may_be_closed(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A test costs as much as a statement. What the server closed, as at its restart, is replaced unnoticed."""
    asked = list[Any]()
    ping = postgres_database._writer.dialect.do_ping

    def count_and_ping(connection: Any) -> bool:
        asked.append(connection.driver_connection)
        return ping(connection)

    async def used() -> Any:
        """The driver's connection that a transaction has."""
        async with postgres_database.transaction() as connection:
            await connection.execute(text("SELECT 1"))
            return (await connection.get_raw_connection()).driver_connection

    monkeypatch.setattr(postgres_database._writer.dialect, "do_ping", count_and_ping)
    monkeypatch.setattr(module, "_IDLE_SECONDS", float("inf"))
    first = await used()
    assert (await used(), asked) == (first, [])
    other = Database(postgres_database.url.render_as_string(hide_password=False))
    async with other.transaction() as connection:
        await connection.execute(text("SELECT pg_terminate_backend(:pid, 5000)"), {"pid": first.info.backend_pid})
    await other.close()
    second = await used()
    assert (second is first, asked) == (False, [first])
    monkeypatch.setattr(module, "_IDLE_SECONDS", 0)
    assert (await used(), asked) == (second, [first, second])
    monkeypatch.setattr(module, "_IDLE_SECONDS", float("inf"))
    await second.close()
    assert await used() not in (first, second)


async def test_sqlite_commits_survive_the_process_and_foreign_keys_hold(sqlite_database: Database) -> None:
    """WAL with normal synchronisation, foreign keys checked, and at least five seconds of patience with others."""
    for opened in (sqlite_database.transaction(), sqlite_database.reading()):
        async with opened as connection:
            pragmas = {
                name: (await connection.execute(text(f"PRAGMA {name}"))).scalar_one()
                for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
            }
        assert pragmas["journal_mode"] == "wal"
        assert pragmas["synchronous"] == 1
        assert pragmas["foreign_keys"] == 1
        assert pragmas["busy_timeout"] >= 5000


async def test_sqlite_opened_twice_at_once_waits_for_the_switch_to_wal(
    make_sqlite_url: MakeUrl, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite refuses the second at once, without its busy timeout; the guard of the gate fails a wait of our own."""
    execute, refusals = aiosqlite.Connection.execute, iter(["database is locked"])

    async def refuse_the_first_switch(connection: aiosqlite.Connection, sql: str) -> aiosqlite.Cursor:
        if "journal_mode" in sql and (refusal := next(refusals, None)):
            raise aiosqlite.OperationalError(refusal)
        return await execute(connection, sql)

    monkeypatch.setattr(aiosqlite.Connection, "execute", refuse_the_first_switch)
    database = Database(make_sqlite_url())
    async with database.reading() as connection:
        assert (await connection.execute(text("PRAGMA journal_mode"))).scalar_one() == "wal"
    await database.close()


async def test_sqlite_transaction_that_cannot_begin_writes_nothing(sqlite_database: Database, tmp_path: Path) -> None:
    """It begins with its first statement: while another process writes, no statement runs outside a transaction."""
    await sqlite_database.close()
    impatient = Database(sqlite_database.url.render_as_string(), busy=timedelta(0))
    assert impatient.url.database is not None
    with closing(sqlite3.connect(impatient.url.database, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        async with impatient.transaction() as connection:
            for _ in range(2):
                with pytest.raises(DBAPIError, match="locked"):
                    await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)
            other.execute("COMMIT")
            await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=NOW)
            await connection.rollback()
        async with impatient.reading() as connection:
            assert await unfinished_jobs(Jobs(connection)) == 0
    await impatient.close()


async def test_sqlite_twelve_processes_enqueue_at_once_and_all_succeed(make_sqlite_url: MakeUrl) -> None:
    """Writers that begin at the same time write one after the other, also when they share nothing but the file."""
    url = make_sqlite_url()
    databases = [Database(url) for _ in range(12)]

    async def enqueue(database: Database) -> None:
        async with database.transaction() as connection:
            jobs = Jobs(connection)
            # Read before writing: the pattern that fails unless the transaction begins as a writing one.
            await unfinished_jobs(jobs)
            await jobs.enqueue(kind="k", request={}, process_id="p", now=NOW)

    await asyncio.gather(*(enqueue(database) for database in databases))
    async with databases[0].reading() as connection:
        assert await unfinished_jobs(Jobs(connection)) == 12
    for database in databases:
        await database.close()


async def test_transactions_on_sqlite_are_served_in_the_order_of_asking(tmp_path: Path) -> None:
    """No writer overtakes: one that stores many things lets those that wait write in between."""
    database, order = Database(f"sqlite:///{tmp_path / 'imq.db'}"), list[str]()

    async def write(name: str, times: int = 1) -> None:
        for _ in range(times):
            async with database.transaction() as connection:
                await connection.execute(text("SELECT 1"))
                order.append(name)

    try:
        await asyncio.gather(write("a", 2), write("b"), write("c"))
    finally:
        await database.close()
    assert order == ["a", "b", "c", "a"]


async def test_sqlite_keeps_an_instant_as_text_of_one_form(sqlite_database: Database) -> None:
    """Text compares as instants do only in one zone and to one length; earlier versions wrote the same."""
    whole = NOW.replace(microsecond=0).astimezone(timezone(timedelta(hours=2)))
    async with sqlite_database.transaction() as connection:
        await Jobs(connection).enqueue(kind="k", request={}, process_id="p", now=whole)
        stored = (await connection.exec_driver_sql("SELECT not_before FROM jobs")).scalar_one()
    assert stored == "2026-03-29 01:30:00.000000"


class _Part:
    """A part of a statement's key that counts how often Python computes its hash."""

    hashed = 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Part)

    def __hash__(self) -> int:
        _Part.hashed += 1
        return 1


def test_compiled_statement_is_found_by_the_identity_of_its_key_or_else_by_its_value() -> None:
    """Statements that are constants cost no hash of all their parts; equal ones built for a call compile once."""
    compiled, parts = _Compiled(), (_Part(),)
    compiled["dialect", parts, ("a",), False, False] = "found"
    _Part.hashed = 0
    assert compiled.get(("dialect", parts, ("a",), False, False)) == "found"
    assert _Part.hashed == 0
    assert compiled.get(("dialect", (_Part(),), ("a",), False, False)) == "found"
    assert compiled.get(("dialect", parts, ("a", "b"), False, False)) is None
    assert compiled.get(("dialect", parts, ("a",), False, True)) is None


def test_compiled_statements_that_are_built_for_each_call_take_no_memory_for_ever() -> None:
    """A thousand are kept; none that was forgotten is found by an identity that another one has now."""
    compiled = _Compiled()
    for number in range(2_500):
        key = ("dialect", (number, "parts"), (), False, False)
        assert compiled.get(key) is None
        compiled[key] = number
        assert compiled.get(key) == number
    assert len(compiled) == len(compiled._by_identity) == 500
