"""Places that are given and given up in the same moment, where transactions run side by side."""

import asyncio

import pytest

from queue_engine.core.database import Database
from queue_engine.errors import StaleVersion
from queue_engine.places import still_waiting
from queue_engine.store import Store
from queue_engine.store.queues import Queues
from tests.queue_engine.examples import NOW, REPOSITORY


@pytest.mark.postgres
async def test_one_that_gets_its_place_in_this_moment_is_not_taken_for_waiting(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever lets it go, or gives it something, waits for who gives the place, and is told to look again."""
    store, asked = Store(postgres_database), asyncio.Event()
    give_places = Queues.give_places

    async def ask(self: Queues, queue_id: int) -> None:
        asked.set()
        await give_places(self, queue_id)

    async def look() -> None:
        async with store.transaction() as tx:
            await still_waiting(tx, REPOSITORY.id, 1)

    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.held.add(queue.id, REPOSITORY.id, 1, "head", "max", NOW)
    async with store.transaction() as tx, asyncio.timeout(10):
        await tx.queues.give_places(queue.id)
        monkeypatch.setattr(Queues, "give_places", ask)
        looking = asyncio.create_task(look())
        await asked.wait()
        await tx.held.remove(REPOSITORY.id, 1)
    with pytest.raises(StaleVersion):
        await looking
    async with store.transaction() as tx:
        assert await still_waiting(tx, REPOSITORY.id, 1) is None
