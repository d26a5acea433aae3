"""Migrate any older database, or an empty one, to this version's tables.

Lives here: the Alembic environment and the revisions, run in-process. An empty database gets the tables of the code. A
new revision is a module in `versions`, written by hand beside its predecessors, and `HEAD` names it. A test holds that
revisions change the tables of each release to exactly those of the code, on both databases. A revision that has been
released is never edited, and imports no table: tables change after it. Revisions after a release only add what its
processes tolerate, because both run during a rolling upgrade (CONTRIBUTING.md, "Releasing");
`tests/store/test_expanding_revisions.py` holds that. The old processes do not know the new revision, so `migrate`
stores the oldest revision whose code may run on its tables.

May not live here: statements that the running bot needs.
"""

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

import structlog
from sqlalchemy import Column, Connection, Integer, String, Table, delete, insert, inspect, select, text

from queue_engine.core.database.database import Database, metadata
from queue_engine.core.database.outage import OutageKind, fault_of

__all__ = ["HEAD", "OLDEST", "MigrationError", "MigrationState", "current", "migrate", "migration_state"]

HEAD = "0001"
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


schema_compatibility = Table(
    "schema_compatibility",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=False),
    Column("oldest", String(32), nullable=False),
)
"""One row: the oldest revision whose code may run on the tables."""


class MigrationState(StrEnum):
    """Whether code of some revision may run on the tables of a database."""

    USABLE = "usable"
    OUTDATED = "outdated"
    """The database is empty or older than the code."""
    TOO_NEW = "too_new"
    """A newer version migrated the database, and its tables do not tolerate this code."""


class MigrationError(Exception):
    """The database was migrated by a newer version of IMQ, which this version does not tolerate."""


async def migrate(database: Database, *, pause: Callable[[float], Awaitable[None]] = asyncio.sleep) -> None:
    """Bring the database to `HEAD`, in one transaction.

    Processes that do this at the same time do it one after the other, and all but the first find nothing to do. On
    PostgreSQL the transaction gives up a table that others use for longer than 0.2 seconds, and starts over after
    `pause`: running processes never wait longer.

    A newer database remains as it is, if this code may run on it. Raises MigrationError if not.
    """
    if await current(database) == HEAD:
        return
    for left in reversed(range(_TRIES)):
        try:
            await _migrate(database)
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
        return await connection.run_sync(_present_revision)


async def migration_state(database: Database) -> MigrationState:
    """Return whether this code may run on the tables of the database."""
    async with database.reading() as connection:
        return await connection.run_sync(_state)


async def _migrate(database: Database) -> None:
    before = await current(database)
    async with database.transaction() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
            await connection.execute(text(f"SET LOCAL lock_timeout = {round(1000 * _LOCK_SECONDS)}"))
        migrated = await connection.run_sync(_upgrade)
    if migrated:
        _log.info("database_migrated", before=before, revision=HEAD)


def _upgrade(connection: Connection) -> bool:
    """Make the tables, or run the missing revisions; return whether there was anything to do."""
    state, present = _state(connection), _present_revision(connection)
    if state is MigrationState.TOO_NEW:
        raise MigrationError(
            f"A newer version of IMQ migrated the database to revision {present}, on which this version cannot run. "
            "Install the newer version, or restore a backup made before the upgrade."
        )
    if state is MigrationState.USABLE:
        return False
    from queue_engine.migrations import run

    change = run.create if present is None else run.upgrade
    change(connection, HEAD)
    _store_oldest(connection, OLDEST)
    return True


def _state(connection: Connection) -> MigrationState:
    return _state_of(_present_revision(connection), _oldest_revision(connection), HEAD)


def _state_of(present: str | None, oldest: str | None, known: str) -> MigrationState:
    """Compare a database at revision `present`, which tolerates code from `oldest` on, with code that knows `known`.

    Revisions are numbers of four digits, so that their order is that of their text.
    """
    if present is None or present < known:
        return MigrationState.OUTDATED
    if present == known or (oldest is not None and oldest <= known):
        return MigrationState.USABLE
    return MigrationState.TOO_NEW


def _present_revision(connection: Connection) -> str | None:
    """Return the revision of the database; None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def _oldest_revision(connection: Connection) -> str | None:
    """Return the oldest revision whose code may run on these tables; None if the database does not say."""
    if not inspect(connection).has_table(schema_compatibility.name):
        return None
    return connection.execute(select(schema_compatibility.c.oldest)).scalar_one_or_none()


def _store_oldest(connection: Connection, oldest: str) -> None:
    """Store the oldest revision whose code may run on these tables."""
    connection.execute(delete(schema_compatibility))
    connection.execute(insert(schema_compatibility).values(id=1, oldest=oldest))
