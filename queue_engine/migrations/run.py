"""Run Alembic in-process. Imported only for a migration, because it takes a fifth of a process's start."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import Connection


def upgrade(connection: Connection, revision: str) -> None:
    """Bring the connection's database to `revision`, in its transaction."""
    config = _config()
    config.attributes["connection"] = connection
    command.upgrade(config, revision)


def known() -> tuple[str, ...]:
    """Every revision that this code knows, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _config() -> Config:
    config = Config()
    config.set_main_option("script_location", "queue_engine:migrations")
    config.set_main_option("path_separator", "os")
    return config
