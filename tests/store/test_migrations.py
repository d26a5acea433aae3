"""An empty database gets the tables of the code, on both databases."""

from sqlalchemy import inspect

from queue_engine.core.database.database import Database, metadata
from queue_engine.migrations import HEAD, current, migrate


async def test_empty_database_gets_the_partial_indexes_of_the_code(empty_database: Database) -> None:
    """On both databases."""
    assert await current(empty_database) is None
    await migrate(empty_database)
    assert await current(empty_database) == HEAD
    async with empty_database.reading() as connection:
        indexes = await connection.run_sync(lambda sync: inspect(sync).get_multi_indexes())
    where = f"{empty_database.dialect}_where"
    stored = {each["name"] for found in indexes.values() for each in found if where in each.get("dialect_options", {})}
    declared = (each for table in metadata.tables.values() for each in table.indexes)
    assert stored == {each.name for each in declared if each.dialect_options["sqlite"]["where"] is not None}
