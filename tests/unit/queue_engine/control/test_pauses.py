"""Pauses, freezes and their ends by request, on both databases."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine.config.model import Policy
from queue_engine.control import pauses
from queue_engine.control.pauses import ControlResult
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.model import Pause, RedBase
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change
from queue_engine.rules.blockers import blockers_of
from queue_engine.store import Store
from tests.store.examples import queue, stand
from tests.unit.queue_engine.examples import HOUR, NOW, REPOSITORY

ALARM = Pause(Reason.TREE_MISMATCH, "not what was tested", NOW)


async def change_queue(
    store: Store, how: Any, *, at: timedelta = timedelta(0), by: str = "rhea", **more: Any
) -> ControlResult:
    """A request about `main`, that long after NOW."""
    async with store.transaction() as tx:
        result: ControlResult = await how(Change(tx, NOW + at), REPOSITORY, "main", by=by, **more)
    return result


async def events(store: Store) -> list[tuple[str, Reason | None, Any]]:
    async with store.reading() as tx:
        return [(e.event, e.reason, e.data) for e in reversed(await tx.timeline.latest(20))]


async def test_pause_of_a_queue_without_entries_holds_its_first_entry(store: Store) -> None:
    """IMQ stores who paused, why and since when, and records them in the timeline."""
    result = await change_queue(store, pauses.pause, reason="the fair")
    assert result.queue.pauses == (Pause(Reason.PAUSED_BY_HAND, "the fair", NOW, None, "rhea"),)
    assert (result.changed, result.lifted, result.concerned) == (True, (), ())
    assert await events(store) == [
        ("paused", Reason.PAUSED_BY_HAND, {"by": "rhea", "detail": "the fair", "until": None})
    ]


async def test_pause_names_all_whom_it_concerns_in_their_order(store: Store) -> None:
    """The answer to a pause names the people whom it holds up."""
    async with store.transaction() as t:
        main = await queue(t)
        await stand(t, main, 4)
        await stand(t, main, 9, priority=1)
        await stand(t, await queue(t, "release"), 5)
    assert (await change_queue(store, pauses.pause)).concerned == (9, 4)


@pytest.mark.parametrize(
    ("how", "more"), [(pauses.pause, {"reason": "x"}), (pauses.freeze, {"until": NOW + HOUR, "reason": "x"})]
)
async def test_halt_that_is_asked_for_twice_is_one(store: Store, how: Any, more: dict[str, Any]) -> None:
    """A command that is executed again after a kill changes nothing, in any person's name."""
    first = await change_queue(store, how, **more)
    again = await change_queue(store, how, at=timedelta(minutes=1), by="max", **more)
    assert (first.changed, again.changed) == (True, False)
    assert again.queue.pauses == first.queue.pauses
    assert len(await events(store)) == 1


async def test_freeze_and_pause_hold_side_by_side_whichever_came_first(store: Store) -> None:
    """Each is set without regard to the other; `/resume` lifts the pause, and a second one lifts the freeze."""
    freeze = Pause(Reason.FROZEN, "the fair", NOW, NOW + 2 * HOUR, "rhea")
    pause = Pause(Reason.PAUSED_BY_HAND, "look", NOW, None, "rhea")
    await change_queue(store, pauses.freeze, until=NOW + HOUR)
    assert (await change_queue(store, pauses.freeze, until=NOW + 2 * HOUR, reason="the fair")).changed
    result = await change_queue(store, pauses.pause, reason="look")
    assert (result.changed, result.queue.pauses) == (True, (pause, freeze))
    assert not (await change_queue(store, pauses.freeze, until=NOW + 2 * HOUR, reason="the fair")).changed
    sooner = await change_queue(store, pauses.freeze, until=NOW + HOUR)
    assert (sooner.changed, sooner.queue.pauses[0]) == (True, pause)
    resumed = await change_queue(store, pauses.resume)
    assert resumed.lifted == ((Reason.PAUSED_BY_HAND, "look"),)
    assert resumed.queue.pauses == (Pause(Reason.FROZEN, "", NOW, NOW + HOUR, "rhea"),)
    again = await change_queue(store, pauses.resume)
    assert (again.changed, again.lifted, again.queue.pauses) == (True, ((Reason.FROZEN, ""),), ())


async def test_resume_after_the_freeze_has_ended_leaves_nothing_to_resume(store: Store) -> None:
    """A maintainer does not have to resume what is over."""
    await change_queue(store, pauses.pause)
    await change_queue(store, pauses.freeze, until=NOW + HOUR)
    resumed = await change_queue(store, pauses.resume, at=HOUR)
    assert (resumed.lifted, blockers_of(resumed.queue, Policy(), NOW + HOUR)) == (((Reason.PAUSED_BY_HAND, ""),), ())
    assert not (await change_queue(store, pauses.resume, at=HOUR)).changed


async def test_unfreeze_lifts_the_freeze_alone(store: Store) -> None:
    """A pause stays; without a freeze nothing changes."""
    await change_queue(store, pauses.pause)
    assert not (await change_queue(store, pauses.unfreeze)).changed
    await change_queue(store, pauses.freeze, until=NOW + HOUR)
    lifted = await change_queue(store, pauses.unfreeze)
    assert (lifted.changed, [pause.reason for pause in lifted.queue.pauses]) == (True, [Reason.PAUSED_BY_HAND])
    await change_queue(store, pauses.resume)
    await change_queue(store, pauses.freeze, until=NOW + HOUR)
    assert not (await change_queue(store, pauses.unfreeze, at=HOUR)).changed, "it is over"
    assert (await change_queue(store, pauses.unfreeze)).queue.pauses == ()


async def test_pauses_by_imq_leave_a_freeze_and_a_pause_in_force(store: Store) -> None:
    """Who has looked into them resumes both, and the own pause; nothing that somebody wanted frozen opens."""
    await change_queue(store, pauses.freeze, until=NOW + HOUR)
    await change_queue(store, pauses.pause, reason="look")
    async with store.transaction() as t:
        for reason in (Reason.TREE_MISMATCH, Reason.INVARIANT_BROKEN):
            await record.pause(Change(t, NOW), await queue(t), reason, "why")
    resumed = await change_queue(store, pauses.resume)
    expected = ((Reason.INVARIANT_BROKEN, "why"), (Reason.TREE_MISMATCH, "why"), (Reason.PAUSED_BY_HAND, "look"))
    assert resumed.lifted == expected
    assert [pause.reason for pause in resumed.queue.pauses] == [Reason.FROZEN]
    ended = [(event, reason) for event, reason, _ in await events(store)]
    assert ended[-3:] == [("resumed", reason) for reason, _ in expected]


async def test_freeze_until_an_instant_that_has_passed_changes_nothing(store: Store) -> None:
    """IMQ announces nothing for it either."""
    assert not (await change_queue(store, pauses.freeze, until=NOW)).changed
    assert await events(store) == []


async def test_pause_after_a_freeze_that_has_ended_is_a_new_one(store: Store) -> None:
    """Whether its end has been noticed or not."""
    await change_queue(store, pauses.freeze, until=NOW + HOUR)
    assert (await change_queue(store, pauses.freeze, at=HOUR, until=NOW + 2 * HOUR)).changed


async def test_pause_by_imq_is_not_replaced_by_a_maintainers(store: Store) -> None:
    """Why the queue stopped remains to be read: what landed was not what was tested."""
    async with store.transaction() as t:
        await t.pauses.put((await queue(t)).id, ALARM)
    result = await change_queue(store, pauses.pause)
    assert (result.changed, result.queue.pauses[0], len(result.queue.pauses)) == (True, ALARM, 2)


@pytest.mark.parametrize("pause", [ALARM, Pause(Reason.FROZEN, "x", NOW, NOW + HOUR, "max")])
async def test_resume_lifts_any_pause_once(store: Store, pause: Pause) -> None:
    """The queue is due at once; the second resumption has nothing to lift, and says so."""
    async with store.transaction() as t:
        await t.pauses.put((await queue(t)).id, pause)
    result = await change_queue(store, pauses.resume, at=HOUR / 2)
    assert (result.changed, result.lifted, result.queue.pauses) == (True, ((pause.reason, pause.detail),), ())
    again = await change_queue(store, pauses.resume)
    assert (again.changed, again.lifted) == (False, ())
    data = {"by": "rhea", "detail": pause.detail, "until": None}
    assert await events(store) == [("resumed", pause.reason, data)]
    async with store.reading() as t:
        due = await t.queues.next_due()
    assert due is not None
    assert due <= NOW + HOUR / 2


async def test_resume_tries_a_red_base_again_and_is_announced_once(store: Store) -> None:
    """The maintainer knows better than the reports; the pass that notifies the people records it no second time."""
    async with store.transaction() as t:
        main = await queue(t)
        await t.red_bases.note(main.id, RedBase("ci", "tip", NOW, 0, NOW + HOUR))
        await t.queues.note_announced(main.id, BlockerNotices.of([Blocker(Reason.BASE_RED, "ci")], ()).to_json())
    result = await change_queue(store, pauses.resume)
    assert (result.changed, result.queue.red) == (True, None)
    announced = BlockerNotices.from_json(result.queue.announced)
    assert announced is not None
    assert [each.recorded for each in announced.blockers] == [True]
    assert [(event, reason) for event, reason, _ in await events(store)] == [("resumed", Reason.BASE_RED)]


async def test_resume_of_a_queue_without_blockers_says_so(store: Store) -> None:
    """Also of a queue without any entry so far."""
    assert not (await change_queue(store, pauses.resume)).changed
    assert await events(store) == []
