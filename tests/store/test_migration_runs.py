"""Migrations run once, refuse a newer database, and belong to the package."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import structlog
from setuptools import find_packages  # type: ignore[import-untyped]
from sqlalchemy import text

import queue_engine
from queue_engine import migrations
from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, MigrationError, MigrationState, current, migrate, migration_state, run
from tests.process.next_release import NEXT, next_release
from tests.support.databases import PostgresServer


async def test_migrations_by_many_processes_at_once_happen_once(empty_database_url: str) -> None:
    """Processes that start together on an empty database do not stumble over each other."""
    processes = [Database(empty_database_url) for _ in range(5)]
    with structlog.testing.capture_logs() as logged:
        await asyncio.gather(*(migrate(process) for process in processes))
    migrated = [line for line in logged if line["event"] == "database_migrated"]
    assert [(line["before"], line["revision"]) for line in migrated] == [(None, HEAD)]
    assert {await current(process) for process in processes} == {HEAD}
    for process in processes:
        await process.close()


async def test_migrations_of_a_newer_database_are_refused_with_a_sentence(empty_database: Database) -> None:
    """An old version does not touch what a newer one has made, unless its tables tolerate this version."""
    await migrate(empty_database)
    assert await migration_state(empty_database) is MigrationState.USABLE
    async with empty_database.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    await migrate(empty_database)
    assert await migration_state(empty_database) is MigrationState.USABLE
    async with empty_database.transaction() as connection:
        await connection.execute(text("UPDATE schema_compatibility SET oldest = '9998'"))
    assert await migration_state(empty_database) is MigrationState.TOO_NEW
    with pytest.raises(MigrationError, match="9999"):
        await migrate(empty_database)
    assert await current(empty_database) == "9999"


async def test_migrations_of_each_release_say_which_code_may_run_on_their_tables(
    empty_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The record of the former release is replaced: the next upgrade must not fail on it."""

    async def oldest() -> list[str]:
        async with empty_database.reading() as connection:
            return list(await connection.scalars(text("SELECT oldest FROM schema_compatibility")))

    monkeypatch.setattr(migrations, "OLDEST", "0000")
    await migrate(empty_database)
    assert await oldest() == ["0000"]
    with next_release():
        await migrate(empty_database)
    assert await oldest() == [HEAD]


def test_migrations_are_part_of_the_package() -> None:
    """An installed IMQ can migrate: the environment and the revisions are found where packages are looked for."""
    root = Path(queue_engine.__file__).parent.parent
    packaged = find_packages(str(root), include=["queue_engine*"])
    assert {"queue_engine.migrations", "queue_engine.migrations.versions"} <= set(packaged)


def test_head_is_the_newest_revision_there_is() -> None:
    """A process trusts this name when it decides that nothing is to be migrated."""
    assert run.known()[0] == HEAD


async def test_migrations_have_postgres_sweep_the_tables_that_much_passes_through(
    postgres_database: Database,
) -> None:
    """A table of jobs does not stay as large as the largest crowd that ever was in it."""
    async with postgres_database.reading() as connection:
        settings = text("SELECT relname, reloptions FROM pg_class WHERE reloptions IS NOT NULL AND relkind = 'r'")
        swept = {
            name for name, options in await connection.execute(settings) if any("threshold=1000" in o for o in options)
        }
    assert swept == {"jobs", "idempotency_keys", "outbox", "processes"}


@pytest.mark.postgres
async def test_migrations_give_up_a_table_in_use_and_start_over(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Running processes wait for 0.2 seconds at most for a table that a migration wants, and the migration succeeds."""
    monkeypatch.setattr(migrations, "_LOCK_SECONDS", 0.05)
    name = postgres_server.create()
    database, other = (Database(postgres_server.url(name)) for _ in range(2))
    await migrate(database)
    pauses: list[float] = []
    in_use = AsyncExitStack()
    connection = await in_use.enter_async_context(other.transaction())
    await connection.execute(text("LOCK TABLE queues IN ROW EXCLUSIVE MODE"))

    async def pause(seconds: float) -> None:
        pauses.append(seconds)
        assert await current(database) == HEAD, "half of a migration is visible"
        if len(pauses) == 2:
            await in_use.aclose()

    try:
        with next_release():
            await migrate(database, pause=pause)
        assert (pauses, await current(database)) == ([1.0, 1.0], NEXT)
    finally:
        await in_use.aclose()
        for each in (database, other):
            await each.close()
        postgres_server.drop(name)
