"""How deep queues are, for a caller that is about to send work."""

from queue_engine.store import Store
from queue_engine.store.held import HeldPullRequest
from tests.store.examples import NOW, OTHER, REPOSITORY, queue, stand


async def test_depths_count_each_queue_by_itself(store: Store) -> None:
    """Entries and held ones of one queue are no other's; a repository's own are told without the others'."""
    async with store.transaction() as t:
        main, release, other = await queue(t), await queue(t, "release"), await queue(t, "main", OTHER)
        for number in (1, 2):
            await stand(t, main, number)
        await stand(t, release, 3)
        await t.held.add(HeldPullRequest(main.id, REPOSITORY.id, 4, "head-4", "max", NOW))
        await t.held.add(HeldPullRequest(other.id, OTHER.id, 3, "head-3", "max", NOW))
    async with store.reading() as t:
        assert await t.depths.entries() == {main.id: 2, release.id: 1}
        assert await t.depths.held() == {main.id: 1, other.id: 1}
        assert await t.depths.entries(OTHER.id) == {}
        assert await t.depths.held(OTHER.id) == {other.id: 1}
