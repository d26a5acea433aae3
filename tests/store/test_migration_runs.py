"""Migrations run once, refuse a newer database, and belong to the package."""

import asyncio
from pathlib import Path

import pytest
from setuptools import find_packages  # type: ignore[import-untyped]
from sqlalchemy import text

import queue_engine
from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, MigrationError, current, migrate, run


async def test_migrations_by_many_processes_at_once_happen_once(empty_database_url: str) -> None:
    """Processes that start together on an empty database do not stumble over each other."""
    processes = [Database(empty_database_url) for _ in range(5)]
    await asyncio.gather(*(migrate(process) for process in processes))
    assert {await current(process) for process in processes} == {HEAD}
    for process in processes:
        await process.close()


async def test_migrations_of_a_newer_database_are_refused_with_a_sentence(empty_database: Database) -> None:
    """An old version does not touch what a newer one has made."""
    await migrate(empty_database)
    async with empty_database.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(MigrationError, match="9999"):
        await migrate(empty_database)
    assert await current(empty_database) == "9999"


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
