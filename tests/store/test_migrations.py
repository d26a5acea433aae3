"""An empty database gets the tables of the code, on both databases."""

from queue_engine.core.database.database import Database
from queue_engine.migrations import HEAD, current, migrate
from tests.store.examples import differences


async def test_empty_database_gets_exactly_the_tables_of_the_code(empty_database: Database) -> None:
    """The database compares: names, types and indexes are what it stored."""
    assert await current(empty_database) is None
    await migrate(empty_database)
    assert await current(empty_database) == HEAD
    async with empty_database.reading() as connection:
        assert await connection.run_sync(differences) == []
