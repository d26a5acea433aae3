"""Bring the database's tables to this version, or refuse to start on those of another one."""

from bot.process.errors import NotMigrated
from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, MigrationError, current, migrate


async def prepare(database: Database, *, migrates: bool) -> None:
    """Migrate an SQLite file, and PostgreSQL if `migrates` is set. Raises NotMigrated for tables of another version.

    Processes that migrate PostgreSQL at the same time do so one after the other.
    """
    if migrates or database.dialect == "sqlite":
        try:
            await migrate(database)
        except MigrationError as error:
            raise NotMigrated(f"IMQ cannot start: {error}. Start the newer version, or restore a backup.") from None
    if await current(database) != HEAD:
        raise NotMigrated
