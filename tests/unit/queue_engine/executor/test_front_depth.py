"""Entries move across the depth limit of their queue as others come, leave and overtake, and none waits for ever."""

from dataclasses import replace
from datetime import timedelta

import pytest

from queue_engine.config.model import Policy, WaitLimits
from queue_engine.core.database.database import Database
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.model import EntryOrder, EntryStatus, Queue
from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason
from queue_engine.executor.front import follow_depth
from queue_engine.planner.queue_plan import Front, QueueWait
from queue_engine.store import Store
from tests.unit.queue_engine.engine_setup import Setup
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, REPOSITORY
from tests.unit.queue_engine.queues import WINDOW, entries, events, find, pause, second, shown, take

ONE, TWO = Policy(depth=1), Policy(depth=2)


@pytest.fixture
def scene(sqlite_database: Database) -> Setup:
    return Setup(Store(sqlite_database))


async def line(scene: Setup, *numbers: int) -> Queue:
    """A queue whose front is pull request 1, and these behind it."""
    queue = await scene.front()
    for number in numbers:
        await second(scene, queue, number)
    return queue


async def held(scene: Setup, queue: Queue) -> list[int]:
    return [each.number for each in await entries(scene, queue) if each.held_since is not None]


async def leave(scene: Setup, number: int) -> None:
    async with scene.store.transaction() as tx:
        entry = await tx.entries.find(REPOSITORY.id, number)
        assert entry is not None
        await tx.entries.remove(entry)


async def test_entry_gets_room_when_one_before_it_leaves_and_reads_it_once(scene: Setup) -> None:
    """P3: room goes to the first that waits; one pass announces it, the next one has nothing to say."""
    queue = await line(scene, 2, 3, 4)
    assert await take(scene, queue, TWO) == 1
    assert (await held(scene, queue), [await shown(scene, n) for n in (3, 4)]) == ([3, 4], [NoticeKind.HELD] * 2)
    await leave(scene, 1)
    before = await entries(scene, queue)
    assert await take(scene, queue, TWO) == 2
    assert (await held(scene, queue), await shown(scene, 3)) == ([4], NoticeKind.QUEUED)
    after = await entries(scene, queue)
    assert [each for each in after if each not in before] == [after[1]], "nothing else is written"
    assert await take(scene, queue, TWO) == 2
    assert await entries(scene, queue) == after


async def test_entries_beyond_the_limit_are_not_processed_whatever_exempts_them(scene: Setup) -> None:
    """In a freeze only an exempt entry is processed, once there is room for it."""
    queue = await line(scene)
    await second(scene, queue, 2, freeze_exempt=True)
    frozen = replace(WINDOW, depth=1)
    assert isinstance(await take(scene, queue, frozen), QueueWait)
    assert await take(scene, queue, replace(frozen, depth=2)) == 2


async def test_hotfix_and_priority_push_out_the_last_that_has_room(scene: Setup) -> None:
    """The limit counts positions; who is pushed out reads that it waits, from then on."""
    queue = await line(scene, 2)
    await second(scene, queue, 3, priority=1000)
    assert await take(scene, queue, TWO) == 3
    assert (await held(scene, queue), await shown(scene, 2)) == ([2], NoticeKind.HELD)
    moved = (await entries(scene, queue))[2]
    async with scene.store.transaction() as tx:
        await tx.entries.reprioritise(moved, EntryOrder(priority=2000), timedelta(hours=1))
    assert await take(scene, queue, TWO) == 2
    assert (await held(scene, queue), await shown(scene, 2)) == ([1], NoticeKind.QUEUED)


async def test_front_that_is_processed_has_room_whatever_the_limit(scene: Setup) -> None:
    """P1: the front that has begun continues; a hotfix behind the only room waits for it."""
    queue = await scene.front(status=EntryStatus.CHECKING, started_at=NOW)
    await second(scene, queue, 2, hotfix=True, preempts=True)
    assert await take(scene, queue, ONE) == 1
    assert await held(scene, queue) == [2]


async def test_entry_that_waited_for_the_longest_time_leaves_and_the_others_remain(scene: Setup) -> None:
    """P5: also in a paused queue; the queue is due when the next wait ends."""
    queue = await line(scene)
    await second(scene, queue, 2, held_since=NOW - HOUR)
    await second(scene, queue, 3, held_since=NOW - HOUR + MINUTE)
    await pause(scene, queue, Reason.TREE_MISMATCH)
    assert await take(scene, queue, replace(ONE, timeouts=WaitLimits(hold=HOUR))) == QueueWait(NOW + MINUTE)
    assert [each.number for each in await entries(scene, queue)] == [1, 3]
    assert (2, "failed", Reason.HOLD_TIMED_OUT) in await events(scene)
    assert await shown(scene, 2) is NoticeKind.FAILED


async def test_wait_that_ends_while_the_front_is_processed_is_noticed_in_time(scene: Setup) -> None:
    """The front's own polls may be later."""
    queue = await line(scene)
    await second(scene, queue, 2, held_since=NOW)
    found = await find(scene, queue, replace(ONE, timeouts=WaitLimits(hold=MINUTE)))
    assert isinstance(found, Front)
    assert (found.depth, found.until) == (1, NOW + MINUTE)


async def test_entry_that_gets_room_at_its_limit_of_time_stays(scene: Setup) -> None:
    """Room comes first."""
    queue = await scene.front(held_since=NOW - HOUR)
    assert await take(scene, queue, replace(ONE, timeouts=WaitLimits(hold=HOUR))) == 1
    assert await held(scene, queue) == []


async def test_pause_is_announced_to_those_with_room_and_to_one_that_gets_room(scene: Setup) -> None:
    """P6: one that waits reads that the queue is full."""
    queue = await line(scene, 2)
    await pause(scene, queue, Reason.TREE_MISMATCH)
    await take(scene, queue, ONE)
    assert [await shown(scene, n) for n in (1, 2)] == [NoticeKind.PAUSED, NoticeKind.HELD]
    await leave(scene, 1)
    await take(scene, queue, ONE)
    assert await shown(scene, 2) is NoticeKind.PAUSED


async def test_configuration_that_cannot_be_read_moves_no_entry_across_the_limit(scene: Setup) -> None:
    """P6: its limit is not known, so IMQ announces no move that did not happen."""
    queue = await line(scene, 2)
    await take(scene, queue, ONE)
    await take(scene, queue, Policy(fault="line 1: broken"))
    assert (await held(scene, queue), await shown(scene, 1)) == ([2], NoticeKind.PAUSED)


async def test_entry_that_changed_meanwhile_is_announced_by_the_next_pass(scene: Setup) -> None:
    """IMQ stores nothing that rests on old facts."""
    queue = await line(scene, 2)
    read = await entries(scene, queue)
    async with scene.store.transaction() as tx:
        await tx.entries.save(read[1])
    with pytest.raises(StaleRecord):
        await follow_depth(scene.engine, read, (), ONE)
    assert (await held(scene, queue), await events(scene)) == ([], [])
