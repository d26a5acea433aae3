"""A transaction on a database of the test's own."""

from collections.abc import AsyncIterator

import pytest

from queue_engine.core.database.database import Database
from queue_engine.store import Store, Transaction


@pytest.fixture
async def t(sqlite_database: Database) -> AsyncIterator[Transaction]:
    """A transaction that is committed at the end of the test."""
    async with Store(sqlite_database).transaction() as transaction:
        yield transaction
