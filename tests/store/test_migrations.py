"""Migrations make the tables of the code, on both databases."""

from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, current, migrate
from tests.store.examples import differences


async def test_migrations_of_an_empty_database_make_exactly_the_tables_of_the_code(empty_database: Database) -> None:
    """A changed table without a migration fails."""
    assert await current(empty_database) is None
    await migrate(empty_database)
    assert await current(empty_database) == HEAD
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []
