"""The tables at the start of a process, on both databases."""

import asyncio

import pytest
from sqlalchemy import text

from bot.process.sqlite_file import NotMigrated, prepare
from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, current


async def test_start_of_processes_that_migrate_makes_the_tables_once(empty_database_url: str) -> None:
    """Where a platform has no release phase, `imq run` migrates: two that overlap do so one after the other."""
    processes = [Database(empty_database_url) for _ in range(2)]
    await asyncio.gather(*(prepare(each, migrates=True) for each in processes))
    assert {await current(each) for each in processes} == {HEAD}
    for each in processes:
        await each.close()


async def test_start_without_migrating_refuses_an_empty_postgres_and_makes_sqlites_tables(
    empty_database: Database,
) -> None:
    """`imq web` and `imq worker` leave PostgreSQL to `imq migrate`; an SQLite file belongs to the process."""
    if empty_database.dialect == "sqlite":
        await prepare(empty_database, migrates=False)
    else:
        with pytest.raises(NotMigrated, match="run `imq migrate` first"):
            await prepare(empty_database, migrates=False)
    assert await current(empty_database) == (HEAD if empty_database.dialect == "sqlite" else None)


@pytest.mark.parametrize("migrates", [True, False])
async def test_start_on_the_tables_of_a_newer_version_is_refused(empty_database: Database, migrates: bool) -> None:
    """The process ends with a sentence instead of a traceback, and changes nothing."""
    await prepare(empty_database, migrates=True)
    await become(empty_database, "9001", oldest="9000")
    with pytest.raises(NotMigrated, match=r"to revision 9001, .* Install the newer version, or restore a backup"):
        await prepare(empty_database, migrates=migrates)
    assert await current(empty_database) == "9001"


@pytest.mark.parametrize("migrates", [True, False])
async def test_start_on_newer_tables_that_tolerate_this_version_is_allowed(
    empty_database: Database, migrates: bool
) -> None:
    """A rolling upgrade restarts old processes, too: after a crash, or because the upgrade is taken back."""
    await prepare(empty_database, migrates=True)
    await become(empty_database, "9000", oldest=HEAD)
    await prepare(empty_database, migrates=migrates)
    assert await current(empty_database) == "9000"


async def become(database: Database, revision: str, *, oldest: str) -> None:
    """Let the tables be those of another revision, which tolerates code from `oldest` on."""
    async with database.transaction() as connection:
        await connection.execute(text("UPDATE alembic_version SET version_num = :now"), {"now": revision})
        await connection.execute(text("UPDATE schema_compatibility SET oldest = :oldest"), {"oldest": oldest})
