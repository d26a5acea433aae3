"""State of a database's migrations: the code of its own revision may run on it, and the code that it tolerates.

During a rolling upgrade the processes of the previous release run on tables that the new release has migrated. They do
not know the new revision. So `migrate` stores the oldest revision whose code may run on its tables.
"""

from enum import StrEnum

from sqlalchemy import Column, Connection, Integer, String, Table, delete, insert, inspect, select, text

from queue_engine.core.database.database import metadata

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


def state_of(present: str | None, oldest: str | None, known: str) -> MigrationState:
    """Compare a database at revision `present`, which tolerates code from `oldest` on, with code that knows `known`.

    Revisions are numbers of four digits, so that their order is that of their text.
    """
    if present is None or present < known:
        return MigrationState.OUTDATED
    if present == known or (oldest is not None and oldest <= known):
        return MigrationState.USABLE
    return MigrationState.TOO_NEW


def present_revision(connection: Connection) -> str | None:
    """Return the revision of the database; None when it is empty."""
    if not inspect(connection).has_table("alembic_version"):
        return None
    return connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()


def oldest_revision(connection: Connection) -> str | None:
    """Return the oldest revision whose code may run on these tables; None if the database does not say."""
    if not inspect(connection).has_table(schema_compatibility.name):
        return None
    return connection.execute(select(schema_compatibility.c.oldest)).scalar_one_or_none()


def store_oldest(connection: Connection, oldest: str) -> None:
    """Store the oldest revision whose code may run on these tables, unless the tables are older than this record."""
    if inspect(connection).has_table(schema_compatibility.name):
        connection.execute(delete(schema_compatibility))
        connection.execute(insert(schema_compatibility).values(id=1, oldest=oldest))
