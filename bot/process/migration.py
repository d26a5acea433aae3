"""Bring the database's tables to this version, or refuse to start on those of another one."""

from bot.process.errors import NotMigrated
from queue_engine.core.database.database import Database
from queue_engine.migrations import MigrationError, MigrationState, migrate, migration_state


async def prepare(database: Database, *, migrates: bool) -> None:
    """Migrate an SQLite file, and PostgreSQL if `migrates` is set. Raises NotMigrated for tables of another version.

    Processes that migrate PostgreSQL at the same time do so one after the other. Newer tables are accepted if they
    tolerate this version: then old and new processes run side by side during an upgrade.
    """
    try:
        if migrates or database.dialect == "sqlite" or await migration_state(database) is MigrationState.TOO_NEW:
            await migrate(database)
    except MigrationError as error:
        raise NotMigrated(str(error)) from None
    if await migration_state(database) is not MigrationState.USABLE:
        raise NotMigrated
