"""The way from any older database to this version's, or from an empty one.

Lives here: the Alembic environment and the revisions, run in-process. A new revision is a module in `versions`,
written by hand beside its predecessors; a test holds that together they make exactly the tables of the code, on
both databases. A revision that has been released is never edited, and imports no table: tables change after it.
"""

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, text

from queue_engine.core.database import Database

_LOCK = 0x494D51
"""The advisory lock under which PostgreSQL is migrated: "IMQ" in ASCII."""


class UnknownRevision(Exception):
    """The database was migrated by a newer version of IMQ: start that one, or restore a copy made before it."""


async def migrate(database: Database, revision: str = "head") -> None:
    """Bring the database to `revision`, in one transaction.

    Processes that do this at the same time do it one after the other, and all but the first find nothing to do.
    Raises UnknownRevision when the database is newer than this code.
    """
    async with database.transaction() as connection:
        if database.dialect == "postgresql":
            await connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _LOCK})
        await connection.run_sync(_upgrade, revision)


async def current(database: Database) -> str | None:
    """The revision of the database; None when it is empty."""
    async with database.reading() as connection:
        return await connection.run_sync(_current)


def head() -> str:
    """The newest revision that this code knows."""
    revision = ScriptDirectory.from_config(_config()).get_current_head()
    assert revision is not None
    return revision


def _upgrade(connection: Connection, revision: str) -> None:
    config = _config()
    present = _current(connection)
    if present is not None and present not in _revisions(config):
        raise UnknownRevision(f"the database is at revision {present}, which this version of IMQ does not know")
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _revisions(config: Config) -> frozenset[str]:
    return frozenset(script.revision for script in ScriptDirectory.from_config(config).walk_revisions())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "queue_engine:migrations")
    config.set_main_option("path_separator", "os")
    return config
