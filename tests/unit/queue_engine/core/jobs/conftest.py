"""Jobs on each database."""

from collections.abc import AsyncIterator

import pytest

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job_store import Jobs


@pytest.fixture
async def jobs(database: Database) -> AsyncIterator[Jobs]:
    async with database.transaction() as connection:
        yield Jobs(connection)
