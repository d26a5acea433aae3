"""Places that are given and given up in the same moment, where transactions run side by side."""

import asyncio

import pytest

from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRecord
from queue_engine.effects.queue_depth import find_held
from queue_engine.store import Store
from queue_engine.store.held import HeldPullRequest
from queue_engine.store.queues import Queues
from tests.unit.queue_engine.examples import NOW, REPOSITORY


@pytest.mark.postgres
async def test_one_that_gets_its_place_in_this_moment_is_not_taken_for_waiting(
    postgres_database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A transaction that removes or changes a held one waits for the one that gives the place, and must read again."""
    store, asked = Store(postgres_database), asyncio.Event()
    give_places = Queues.give_places

    async def ask(self: Queues, queue_id: int) -> None:
        asked.set()
        await give_places(self, queue_id)

    async def look() -> None:
        async with store.transaction() as tx:
            await find_held(tx, REPOSITORY.id, 1)

    async with store.transaction() as tx:
        queue = await tx.queues.find_or_create(REPOSITORY, "main", NOW)
        await tx.held.add(HeldPullRequest(queue.id, REPOSITORY.id, 1, "head", "max", NOW))
    async with store.transaction() as tx, asyncio.timeout(10):
        await tx.queues.give_places(queue.id)
        monkeypatch.setattr(Queues, "give_places", ask)
        looking = asyncio.create_task(look())
        await asked.wait()
        await tx.held.remove(REPOSITORY.id, 1)
    with pytest.raises(StaleRecord):
        await looking
    async with store.transaction() as tx:
        assert await find_held(tx, REPOSITORY.id, 1) is None
