"""An entry is announced by its position: with room in its queue, or waiting for room."""

import pytest

from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.effects.record import announce_joined
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import NOW, REPOSITORY
from tests.unit.queue_engine.queues import second


@pytest.mark.parametrize(
    ("most", "kind", "position", "reason", "event"),
    [
        (0, NoticeKind.QUEUED, 2, None, "queued"),
        (3, NoticeKind.QUEUED, 2, None, "queued"),
        (2, NoticeKind.HELD, 0, Reason.QUEUE_FULL, "held"),
        (1, NoticeKind.HELD, 1, Reason.QUEUE_FULL, "held"),
    ],
)
async def test_entry_is_announced_with_room_or_with_how_many_wait_before_it(
    sqlite_database: Database, most: int, kind: NoticeKind, position: int, reason: Reason | None, event: str
) -> None:
    """The comment, the timeline and the stored entry say the same, also when they are asked again."""
    scene = Setup(Store(sqlite_database))
    queue = await scene.front()
    await second(scene, queue, 2)
    entry = await second(scene, queue, 3, trusted_labels=["merge-queue", "urgent"], delivery="guid")
    for _ in range(2):
        async with scene.engine.change() as change:
            entry = await announce_joined(change, entry, Policy(depth=most), depth=3)
    assert entry.held_since == (None if reason is None else NOW)
    async with scene.store.reading() as tx:
        assert await tx.entries.get(entry.id) == entry
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, 3)
        recorded = (await tx.timeline.latest(1))[0]
    assert notice is not None
    assert (notice.kind, notice.position, notice.reason) == (kind, position, reason)
    assert (recorded.event, recorded.reason, recorded.delivery, recorded.data["labels"]) == (
        event,
        reason,
        "guid",
        ["merge-queue"],
    )
