"""A queue with a front: its entries, its recorded events, and who asks to join."""

from datetime import datetime
from typing import Any

from queue_engine.config.model import FreezeRules, Policy
from queue_engine.domain.model import Entry, Pause, Queue
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import FreezeWindow
from queue_engine.domain.reasons import Reason
from queue_engine.executor.front import find_front
from queue_engine.planner.front import Front, QueueWait
from queue_engine.store.outbox.outbox import OutboxKind
from tests.store.examples import stand
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import (
    HOUR,
    NOW,
    POLICY,
    REPOSITORY,
)

WINDOW = Policy(freeze=FreezeRules(windows=(FreezeWindow(NOW - HOUR, NOW + HOUR, "the fair"),)))


async def second(scene: Setup, queue: Queue, number: int = 2, **standing: Any) -> Entry:
    async with scene.store.transaction() as tx:
        return await stand(tx, queue, number, **standing)


async def entries(scene: Setup, queue: Queue) -> list[Entry]:
    async with scene.store.reading() as tx:
        return list(await tx.entries.of_queue(queue.id))


async def stored(scene: Setup, queue: Queue) -> Queue:
    async with scene.store.reading() as tx:
        found = await tx.queues.get(queue.id)
    assert found is not None
    return found


async def shown(scene: Setup, number: int) -> NoticeKind | None:
    """What the comment of a pull request is to show."""
    async with scene.store.reading() as tx:
        notice = await tx.outbox.wanted(OutboxKind.COMMENT, REPOSITORY.id, number)
    return None if notice is None else notice.kind


async def events(scene: Setup) -> list[tuple[int, str, Reason | None]]:
    async with scene.store.reading() as tx:
        return [(e.number, e.event, e.reason) for e in reversed(await tx.timeline.latest(20))]


async def pause(scene: Setup, queue: Queue, reason: Reason, until: datetime | None = None) -> None:
    async with scene.store.transaction() as tx:
        await tx.pauses.put(queue.id, Pause(reason, "why", NOW - HOUR, until))


async def take(scene: Setup, queue: Queue, policy: Policy | None = POLICY) -> int | QueueWait:
    """The number of the front entry."""
    found = await find_front(scene.engine, queue.id, policy)
    return found.entry.number if isinstance(found, Front) else found
