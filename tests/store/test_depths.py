"""How deep queues are, for a caller that is about to send work."""

from queue_engine.store import Store
from tests.store.examples import NOW, OTHER, queue, stand


async def test_depths_count_each_queue_by_itself(store: Store) -> None:
    """Entries of one queue are no other's, with room or without; a repository's own are counted without the others'."""
    async with store.transaction() as t:
        main, release, other = await queue(t), await queue(t, "release"), await queue(t, "main", OTHER)
        for number in (1, 2):
            await stand(t, main, number)
        await stand(t, release, 3)
        await stand(t, main, 4, held_since=NOW)
        await stand(t, other, 3, held_since=NOW)
    async with store.reading() as t:
        assert await t.depths.entries() == {main.id: 2, release.id: 1}
        assert await t.depths.held() == {main.id: 1, other.id: 1}
        assert await t.depths.entries(OTHER.id) == {}
        assert await t.depths.held(OTHER.id) == {other.id: 1}
