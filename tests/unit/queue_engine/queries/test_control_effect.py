"""What a jump, a dequeue or a requeue costs is known before, and is what happens then."""

from datetime import timedelta

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from queue_engine.domain.model import EntryOrder, Queue
from queue_engine.domain.run import CheckTiming
from queue_engine.queries.control_effect import load_dequeue_effect, load_priority_effect, load_requeue_effect
from queue_engine.store import Transaction
from tests.store.examples import changed, stand
from tests.store.examples import queue as stored_queue
from tests.unit.queue_engine.examples import CHECKING, MINUTE, NOW, POLICY
from tests.unit.queue_engine.queries.examples import happened


async def queued(t: Transaction, *priorities: int, front: bool = False) -> Queue:
    """A queue with pull requests of these priorities, a minute after each other; with `front` the first is checked."""
    queue = await stored_queue(t)
    for number, priority in enumerate(priorities, start=1):
        await stand(t, queue, number, at=NOW + number * MINUTE, priority=priority)
    if front:
        first = (await t.entries.of_queue(queue.id))[0]
        timings = (CheckTiming("lint", None, NOW, NOW + MINUTE, passed=True), CheckTiming("unit", None, NOW))
        tested = changed(first, status=CHECKING, started_at=NOW, timings=timings, pending_checks=("unit",))
        await t.entries.save(tested)
    return queue


@pytest.mark.parametrize("front", [False, True])
@given(before=st.lists(st.integers(-20, 20), min_size=1, max_size=6), priority=st.integers(-1000, 1000), data=st.data())
@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
async def test_predicted_order_is_the_one_that_the_change_makes(
    t: Transaction, front: bool, before: list[int], priority: int, data: st.DataObject
) -> None:
    """For every entry of the queue: those that are said to be delayed move back, the others do not."""
    async with t.connection.begin_nested() as savepoint:
        queue = await queued(t, *before, front=front)
        entries = await t.entries.of_queue(queue.id)
        entry = data.draw(st.sampled_from(entries))
        effect = await load_priority_effect(t, entry, priority, POLICY, NOW)
        order = EntryOrder(priority, entry.hotfix, entry.preempts, entry.fixes_base, entry.freeze_exempt)
        moved = await t.entries.reprioritise(entry, order, POLICY.priority.ageing)
        assert effect.position == moved.position
        places = {each.id: each.position for each in entries}
        after = [each for each in await t.entries.of_queue(queue.id) if each.id != entry.id]
        assert set(effect.delayed) == {each.number for each in after if each.position > places[each.id]}
        assert set(effect.sooner) == {each.number for each in after if each.position < places[each.id]}
        await savepoint.rollback()


async def test_jump_names_the_delay_of_each_by_earlier_landings(t: Transaction) -> None:
    """About as long as the last landings were at the front; unknown without one."""
    queue = await queued(t, 0, 0, 0)
    entry = (await t.entries.of_queue(queue.id))[2]
    effect = await load_priority_effect(t, entry, 10, POLICY, NOW)
    assert (effect.position, effect.delayed, effect.by) == (0, (1, 2), None)
    await happened(t, 9, "landed", data={"front": 600.0})
    effect = await load_priority_effect(t, entry, 10, POLICY, NOW)
    assert effect.by == 10 * MINUTE
    assert (effect.ends_run, effect.lost) == (False, timedelta(0))


async def test_dequeue_of_the_front_ends_its_run_and_loses_the_time_of_its_checks(t: Transaction) -> None:
    """What has run until now, all checks together; those behind land sooner."""
    queue = await queued(t, 0, 0, 0, front=True)
    front, second, _ = await t.entries.of_queue(queue.id)
    effect = await load_dequeue_effect(t, front, POLICY, NOW + 3 * MINUTE)
    assert (effect.position, effect.ends_run, effect.running) == (None, True, ("unit",))
    assert effect.lost == 4 * MINUTE
    assert (effect.sooner, effect.delayed) == ((2, 3), ())
    assert not effect.cancels_checks, "the head that was queued is no update of IMQ"
    waiting = await load_dequeue_effect(t, second, POLICY, NOW)
    assert (waiting.ends_run, waiting.lost, waiting.sooner) == (False, timedelta(0), (3,))
    assert (await load_requeue_effect(t, front, POLICY, NOW)).position == 2
