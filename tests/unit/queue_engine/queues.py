"""A queue with a front: its entries, its recorded events, and who asks to join."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from queue_engine.config.model import FreezeRules, Policy, TrainRules
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import Entry, Pause, Queue
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.policy import FreezeWindow
from queue_engine.domain.reasons import Reason
from queue_engine.executor.front import make
from queue_engine.executor.queue_pass import find_members
from queue_engine.executor.run_store import TrainState
from queue_engine.planner.queue_plan import Front, Members, QueueChange, QueueWait, front_without_policy, next_front
from queue_engine.store.outbox.items import OutboxKind
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


async def find(scene: Setup, queue: Queue, policy: Policy | None = POLICY) -> Front | QueueWait | QueueChange:
    """The front, after a pass has made the changes that come first."""
    state = TrainState(scene.engine, queue, policy or Policy(), TrainRules(), lambda: True)
    await state.load()
    if policy is None:
        return front_without_policy(state.queue, state.entries, state.now)
    state.generation = state.queue.generation
    found = await find_members(state)
    if isinstance(found, QueueWait):
        return found
    front = next_front(found, state.now)
    if isinstance(front, QueueChange):
        await make(scene.engine, state.queue, front, policy)
        return await find(scene, queue, policy)
    return front


async def take(scene: Setup, queue: Queue, policy: Policy | None = POLICY) -> int | QueueWait:
    """The number of the front entry."""
    found = await find(scene, queue, policy)
    assert not isinstance(found, QueueChange)
    return found.entry.number if isinstance(found, Front) else found


def front_of(entries: Sequence[Entry], blockers: Sequence[Blocker], now: datetime = NOW) -> int | None:
    """The number of the entry that a pass would work on next, preempting the front if need be."""
    match next_front(Members(tuple(entries), tuple(blockers), None), now):
        case Front(chosen) | QueueChange(entries=(_, chosen)):
            return chosen.number
    return None
