"""Run Alembic in-process. Imported only for a migration, because it takes a fifth of a process's start."""

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory
from sqlalchemy import DDL, Connection, Index
from sqlalchemy.schema import CreateIndex, CreateTable, ExecutableDDLElement

from queue_engine.core.database.database import metadata
from queue_engine.core.jobs.idempotency import idempotency_keys
from queue_engine.core.jobs.job import jobs
from queue_engine.store.tables import outbox, processes

_BUSY = (jobs, idempotency_keys, outbox, processes)
"""Tables through which much passes, and in which little stays.

By its defaults PostgreSQL vacuums a table when a fifth of it is dead rows, slowly and in small steps. All rows of a
table of jobs are dead soon, so its size would follow the largest crowd that ever was. A revision that adds such a table
changes its settings, too.
"""
_OFTEN = (
    "autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000,"
    " autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 1000,"
    " autovacuum_vacuum_cost_delay = 0"
)


def create(connection: Connection, revision: str) -> None:
    """Make the tables of the code in an empty database, and store `revision`, the newest."""
    for statement in statements(connection.dialect.name):
        connection.execute(statement)
    command.stamp(_config(connection), revision)


def upgrade(connection: Connection, revision: str) -> None:
    """Run the revisions that a released database lacks, up to `revision`, in the connection's transaction."""
    command.upgrade(_config(connection), revision)


def statements(dialect: str) -> list[ExecutableDDLElement]:
    """Return what makes the tables of the code in an empty database, always in one order.

    PostgreSQL vacuums the busy ones after a thousand dead rows, without pauses.
    """
    made: list[ExecutableDDLElement] = []
    for table in metadata.sorted_tables:
        made += [CreateTable(table), *map(CreateIndex, sorted(table.indexes, key=_place))]
        for index in table.indexes if dialect == "postgresql" else ():
            # Where the tables are declared, its name would load its dialect on SQLite, too: 3 MB.
            index.dialect_options["postgresql"]["where"] = index.dialect_options["sqlite"]["where"]
    for table in _BUSY if dialect == "postgresql" else ():
        made.append(DDL(f"ALTER TABLE {table} SET ({_OFTEN})"))  # type: ignore[no-untyped-call]
    return made


def _place(index: Index) -> tuple[bool, str]:
    """Put partial indexes last: of two that serve a query equally, SQLite takes the newest."""
    return index.dialect_options["sqlite"]["where"] is not None, str(index.name)


def known() -> tuple[str, ...]:
    """Every revision that this code knows, newest first."""
    return tuple(script.revision for script in ScriptDirectory.from_config(_config()).walk_revisions())


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.attributes["connection"] = connection
    config.set_main_option("script_location", "queue_engine:migrations")
    config.set_main_option("path_separator", "os")
    return config
