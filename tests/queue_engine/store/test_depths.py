"""How deep queues are, for whoever is about to send work."""

import pytest

from queue_engine.model import Pause
from queue_engine.reasons import Reason
from queue_engine.standing import Standstill, Told
from queue_engine.store import Store
from queue_engine.store.depths import QueueDepth
from tests.queue_engine.store.examples import NOW, OTHER, REPOSITORY, queue, stand


async def test_depths_count_each_queue_by_itself(store: Store) -> None:
    """Entries and held ones of one queue are no other's; an idle queue is there with nothing in it."""
    async with store.transaction() as t:
        main, release, other = await queue(t), await queue(t, "release"), await queue(t, "main", OTHER)
        for number in (1, 2):
            await stand(t, main, number)
        await t.held.add(main.id, REPOSITORY.id, 3, "head-3", "max", NOW)
        await t.held.add(other.id, OTHER.id, 3, "head-3", "max", NOW)
        await t.queues.pause(release.id, Pause(Reason.TREE_MISMATCH, "why", NOW))
    async with store.reading() as t:
        assert await t.depths.all() == (
            QueueDepth(main.id, REPOSITORY, "main", 2, 1, None),
            QueueDepth(release.id, REPOSITORY, "release", 0, 0, Reason.TREE_MISMATCH),
            QueueDepth(other.id, OTHER, "main", 0, 1, None),
        )


async def test_depths_tell_of_a_standstill_that_nobody_paused_for(store: Store) -> None:
    """A freeze of the configuration, or a red base: what those who wait were told of."""
    async with store.transaction() as t:
        main, release = await queue(t), await queue(t, "release")
        for each in (main, release):
            await t.queues.note_told(each.id, Told.of(Standstill(Reason.FROZEN, "the fair"), ()).written())
        await t.queues.pause(release.id, Pause(Reason.PAUSED_BY_HAND, "why", NOW))
    async with store.reading() as t:
        assert [each.paused for each in await t.depths.all()] == [Reason.FROZEN, Reason.PAUSED_BY_HAND]


@pytest.mark.parametrize(
    ("depth", "held", "most", "accepts"),
    [(0, 0, 1, True), (19, 0, 20, True), (20, 0, 20, False), (19, 1, 20, False), (10_000, 9, 0, True)],
)
def test_depth_accepts_while_a_place_is_free_that_nobody_waits_for(
    depth: int, held: int, most: int, accepts: bool
) -> None:
    """A place that others wait for is taken; 0 means no limit."""
    assert QueueDepth(1, REPOSITORY, "main", depth, held, None).accepts(most) is accepts
