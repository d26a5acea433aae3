"""Migrate any older database, or an empty one, to this version's tables.

Lives here: the Alembic environment and the revisions, run in-process. A new revision is a module in `versions`,
written by hand beside its predecessors, and `HEAD` names it; a test holds that together they make exactly the tables
of the code, on both databases. A revision that has been released is never edited, and imports no table: tables change
after it. Revisions after a release only add what its processes tolerate, because both run during a rolling upgrade
(docs/releasing.md); `tests/store/test_expanding_revisions.py` holds that.

May not live here: statements that the running bot needs.
"""

import asyncio
from collections.abc import Awaitable, Callable

import structlog
from sqlalchemy import Connection, text

from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import OutageKind, fault_of
from queue_engine.migrations.state import (
    MigrationState,
    oldest_revision,
    present_revision,
    state_of,
    store_oldest,
)

__all__ = ["HEAD", "OLDEST", "MigrationError", "MigrationState", "current", "migrate", "migration_state"]

HEAD = "0050"
"""The newest revision that this code knows."""

OLDEST = HEAD
"""The oldest revision whose code may run on the tables of `HEAD`: that of the previous release."""

_LOCK = 0x494D51
"""The advisory lock under which PostgreSQL is migrated: "IMQ" in ASCII."""

_LOCK_SECONDS = 0.2
"""How long a statement on PostgreSQL waits for a table. All other transactions on the table wait behind it.

It is far below PostgreSQL's `deadlock_timeout` of a second, so that of a migration and a pass that wait for each other
the migration gives up.
"""

_TRIES = 75
_PAUSE_SECONDS = 1.0

_log = structlog.get_logger("imq.migrations")


class MigrationError(Exception):
    """The database was migrated by a newer version of IMQ, which this version does not tolerate."""


async def migrate(
    database: Database, revision: str = HEAD, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep
) -> None:
    """Bring the database to `revision`, in one transaction.

    Processes that do this at the same time do it one after the other, and all but the first find nothing to do. On
    PostgreSQL the transaction gives up a table that others use for longer than 0.2 seconds, and starts over after
    `pause`: running processes never wait longer.

    A newer database remains as it is, if this code may run on it. Raises MigrationError if not.
    """
    if await current(database) == revision:
        return
    for left in reversed(range(_TRIES)):
        try:
            await _migrate(database, revision)
        except Exception as error:
            if not left or database.dialect == "sqlite":
                raise
            if fault_of(error) not in (OutageKind.LOCKED, OutageKind.LOST_RACE):
                raise
            _log.warning("migration_waits", advice="a table is in use: end long transactions, such as a backup")
            await pause(_PAUSE_SECONDS)
        else:
            return


async def current(database: Database) -> str | None:
    """The revision of the database; None when it is empty."""
    async with database.reading() as connection:
        return await connection.run_sync(present_revision)


async def migration_state(database: Database) -> MigrationState:
    """Return whether this code may run on the tables of the database."""
    async with database.reading() as connection:
        return await connection.run_sync(_state)


async def _migrate(database: Database, revision: str) -> None:
    before = await current(database)
    async with database.transaction() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await connection.execute(text(f"SET LOCAL lock_timeout = {round(1000 * _LOCK_SECONDS)}"))
        migrated = await connection.run_sync(_upgrade, revision)
    if migrated:
        _log.info("database_migrated", before=before, revision=revision)


def _upgrade(connection: Connection, revision: str) -> bool:
    """Run the missing revisions; return whether there were any."""
    if _state(connection) is MigrationState.TOO_NEW:
        present = present_revision(connection)
        raise MigrationError(
            f"A newer version of IMQ migrated the database to revision {present}, on which this version cannot run. "
            "Install the newer version, or restore a backup made before the upgrade."
        )
    if _state(connection) is MigrationState.USABLE:
        return False
    from queue_engine.migrations import run

    run.upgrade(connection, revision)
    store_oldest(connection, OLDEST)
    return True


def _state(connection: Connection) -> MigrationState:
    return state_of(present_revision(connection), oldest_revision(connection), HEAD)
