"""Databases of releases: rows that a release stored, kept so that each later version can be tested on them.

`make release-database` writes that of the present version, with its tables as statements for both databases: a queue
in flight with everything that an operator has. `load` makes it a database again, at the release's revision.
"""

import asyncio
import json
import re
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, DateTime, Dialect, MetaData, null, text
from sqlalchemy.dialects.postgresql.base import PGDialect
from sqlalchemy.dialects.sqlite.base import SQLiteDialect

from bot import __version__
from docs.generate import ROOT
from queue_engine.core.database.database import Database
from queue_engine.domain.model import EntryStatus, Pause, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.migrations import HEAD, migrate
from queue_engine.migrations.run import statements
from queue_engine.store import Store, Transaction
from tests.store.examples import NOW, REPOSITORY, changed, queue, stand
from tests.store.outbox.outbox_examples import CHECK_RUN, COMMENT, LABEL, take, want

FOLDER = ROOT / "tests" / "store" / "releases"
MAKE = "make release-database"
_INSTANT = "instant"
_RANDOM = re.compile(r"\b[0-9a-f]{32}\b")
_OWN = frozenset({"alembic_version", "schema_compatibility", "sqlite_sequence"})
"""Tables that the migrations fill."""
_REVISIONS = """CREATE TABLE alembic_version (
    version_num VARCHAR(32) NOT NULL, CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
)"""
"""Alembic's table."""


def released() -> dict[str, str]:
    """Return the revision of each release whose database is kept, by version."""
    return {path.stem: json.loads(path.read_text(encoding="utf-8"))["revision"] for path in FOLDER.glob("*.json")}


async def load(database: Database, version: str) -> None:
    """Make an empty database that of a release. Raises FileNotFoundError for a release that is none."""
    content = json.loads((FOLDER / f"{version}.json").read_text(encoding="utf-8"))
    async with database.transaction() as connection:
        for statement in content["tables"][database.dialect]:
            await connection.execute(text(statement))
        names = {"revision": content["revision"]}
        await connection.execute(text(_REVISIONS))
        await connection.execute(text("INSERT INTO alembic_version VALUES (:revision)"), names)
        await connection.run_sync(_insert, content["rows"])


async def fill(tx: Transaction) -> None:
    """Store a queue in flight: entries of every status, a pause, outbox items, a job, a timeline."""
    main = await queue(tx)
    statuses = (EntryStatus.CHECKING, EntryStatus.PENDING, EntryStatus.PENDING)
    for number, status in enumerate(statuses, 1):
        entry = await stand(tx, main, number, trusted_labels=["merge-queue"], delivery=f"guid-{number}")
        await tx.entries.save(changed(entry, status=status))
        await tx.timeline.append(TimelineEvent(NOW, "queued", REPOSITORY.id, "main", number, entry.id))
    await stand(tx, main, 4, hotfix=True, preempts=True)
    next_branch = await queue(tx, "next")
    await stand(tx, next_branch, 5)
    await tx.pauses.put(next_branch.id, Pause(Reason.PAUSED_BY_HAND, "release", NOW, None, "mona"))
    await tx.timeline.append(
        TimelineEvent(NOW, "failed", REPOSITORY.id, "main", 9, None, Reason.CHECKS_FAILED, None, {"head": "head-9"})
    )
    await tx.rejections.put(REPOSITORY.id, 9, "head-9", Reason.CHECKS_FAILED, NOW)
    for number in (1, 2):
        for kind in (COMMENT, CHECK_RUN):
            await want(tx, kind, number=number)
    sent = await take(tx)
    await tx.outbox.created(sent, 70)
    await tx.outbox.done(sent, NOW)
    await want(tx, LABEL, number=9, now=NOW + timedelta(hours=1))
    await tx.jobs.enqueue(kind="webhook", request={"delivery": "guid-8"}, process_id="7:8", now=NOW)
    await tx.keys.record("webhook", [("guid-8", "pull_request")], NOW)


async def _made(file: Path) -> dict[str, Any]:
    database = Database(f"sqlite:///{file}")
    try:
        await migrate(database)
        async with Store(database).transaction() as tx:
            await fill(tx)
        async with database.reading() as connection:
            rows = await connection.run_sync(_dump)
    finally:
        await database.close()
    return {"version": __version__, "revision": HEAD, "rows": rows, "tables": _tables()}


def _tables() -> dict[str, list[str]]:
    """Return the statements that make the tables of the code, by database."""
    dialects: dict[str, Dialect] = {"postgresql": PGDialect(), "sqlite": SQLiteDialect()}  # type: ignore[no-untyped-call]
    return {
        name: [" ".join(str(each.compile(dialect=dialect)).split()) for each in statements(name)]
        for name, dialect in dialects.items()
    }


def _dump(connection: Connection) -> dict[str, list[dict[str, Any]]]:
    tables = MetaData()
    tables.reflect(connection)
    found: dict[str, list[dict[str, Any]]] = {}
    for table in tables.sorted_tables:
        rows = [dict(row._mapping) for row in connection.execute(table.select())]
        if rows and table.name not in _OWN:
            found[table.name] = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return found


def _plain(value: Any) -> Any:
    return {_INSTANT: value.isoformat()} if isinstance(value, datetime) else value


def _insert(connection: Connection, rows: dict[str, list[dict[str, Any]]]) -> None:
    tables = MetaData()
    tables.reflect(connection)
    for table in tables.sorted_tables:
        if not (its_rows := rows.get(table.name)):
            continue
        instants = {column.name for column in table.columns if isinstance(column.type, DateTime)}
        for row in its_rows:
            given = {name: _instant(row[name]) for name in instants & set(row)}
            # A reflected JSON column would store None as JSON's null.
            empty = {name: null() for name, value in row.items() if value is None}
            connection.execute(table.insert().values(row | given | empty))
        key = table.primary_key.columns.values()[0]
        if connection.dialect.name == "postgresql" and key.server_default is not None:
            # Rows with ids of their own do not move the sequence on.
            newest = max(row[key.name] for row in its_rows)
            connection.execute(
                text("SELECT setval(pg_get_serial_sequence(:table, :key), :newest)"),
                {"table": table.name, "key": key.name, "newest": newest},
            )


def _instant(value: Any) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value[_INSTANT]).replace(tzinfo=UTC)


def _with_counted_ids(content: str) -> str:
    """Replace random ids, so that the same rows make the same file."""
    for number, found in enumerate(dict.fromkeys(_RANDOM.findall(content)), 1):
        content = content.replace(found, f"{number:032x}")
    return content


def main() -> None:
    """Write the database of the present version."""
    with tempfile.TemporaryDirectory() as folder:
        content = asyncio.run(_made(Path(folder) / "imq.db"))
    file = FOLDER / f"{__version__}.json"
    file.write_text(_with_counted_ids(json.dumps(content, indent=1, sort_keys=True)) + "\n", encoding="utf-8")
    print(f"wrote {file.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
