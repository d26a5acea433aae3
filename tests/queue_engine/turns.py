"""A queue whose turn is taken: who stands in it, what was told, and who comes."""

from datetime import datetime
from typing import Any

from queue_engine.model import Entry, Pause, Queue
from queue_engine.notice import NoticeKind
from queue_engine.policy import DatedFreeze, Policy
from queue_engine.reasons import Reason
from queue_engine.store.outbox import LetterKind
from queue_engine.turn import Rest, Turn, turn
from tests.queue_engine.examples import (
    HOUR,
    NOW,
    POLICY,
    REPOSITORY,
)
from tests.queue_engine.scene import Scene
from tests.queue_engine.store.examples import stand

WINDOW = Policy(freezes=(DatedFreeze(NOW - HOUR, NOW + HOUR, "the fair"),))


async def second(scene: Scene, queue: Queue, number: int = 2, **standing: Any) -> Entry:
    async with scene.store.transaction() as tx:
        return await stand(tx, queue, number, **standing)


async def entries(scene: Scene, queue: Queue) -> list[Entry]:
    async with scene.store.reading() as tx:
        return list(await tx.entries.of_queue(queue.id))


async def stored(scene: Scene, queue: Queue) -> Queue:
    async with scene.store.reading() as tx:
        found = await tx.queues.get(queue.id)
    assert found is not None
    return found


async def shown(scene: Scene, number: int) -> NoticeKind | None:
    """What the comment of a pull request is to show."""
    async with scene.store.reading() as tx:
        notice = await tx.outbox.wanted(LetterKind.COMMENT, REPOSITORY.id, number)
    return None if notice is None else notice.kind


async def events(scene: Scene) -> list[tuple[int, str, Reason | None]]:
    async with scene.store.reading() as tx:
        return [(e.number, e.event, e.reason) for e in reversed(await tx.timeline.latest(20))]


async def pause(scene: Scene, queue: Queue, reason: Reason, until: datetime | None = None) -> None:
    async with scene.store.transaction() as tx:
        await tx.queues.pause(queue.id, Pause(reason, "why", NOW - HOUR, until))


async def take(scene: Scene, queue: Queue, policy: Policy | None = POLICY) -> int | Rest:
    """The number of the entry whose turn it is."""
    found = await turn(scene.engine, queue.id, policy)
    return found.entry.number if isinstance(found, Turn) else found
