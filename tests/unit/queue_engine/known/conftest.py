"""The compared port over a GitHub whose answers a test sets."""

import pytest

from queue_engine.core.database.database import Database
from tests.unit.queue_engine.known.answers import Setup


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    """Nothing is known yet."""
    return Setup(sqlite_database)
