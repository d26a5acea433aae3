"""Migrate any older database, or an empty one, to this version's tables.

Lives here: the Alembic environment and the revisions, run in-process. A new revision is a module in `versions`,
written by hand beside its predecessors, and `HEAD` names it; a test holds that together they make exactly the tables
of the code, on both databases. A revision that has been released is never edited, and imports no table: tables change
after it.

May not live here: statements that the running bot needs.
"""

from sqlalchemy import Connection, inspect, text

from queue_engine.core.database.database import Database

HEAD = "0028"
"""The newest revision that this code knows."""

_LOCK = 0x494D51
"""The advisory lock under which PostgreSQL is migrated: "IMQ" in ASCII."""


class MigrationError(Exception):
    """The database was migrated by a newer version of IMQ: start that one, or restore a copy made before it."""


async def migrate(database: Database, revision: str = HEAD) -> None:
    """Bring the database to `revision`, in one transaction.

    Processes that do this at the same time do it one after the other, and all but the first find nothing to do.
    Raises MigrationError when the database is newer than this code.
    """
    if await current(database) == revision:
        return
    async with database.transaction() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        await connection.run_sync(_upgrade, revision)


async def current(database: Database) -> str | None:
    """The revision of the database; None when it is empty."""
    async with database.reading() as connection:
        return await connection.run_sync(_current)


def _upgrade(connection: Connection, revision: str) -> None:
    from queue_engine.migrations import run

    present = _current(connection)
    if present is not None and present not in run.known():
        raise MigrationError(f"the database is at revision {present}, which this version of IMQ does not know")
    run.upgrade(connection, revision)


def _current(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
