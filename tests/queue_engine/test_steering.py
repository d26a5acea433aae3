"""The hand on the wheel: pauses, freezes and resumptions, on both databases."""

from datetime import timedelta
from typing import Any

import pytest

from queue_engine import journal, steering
from queue_engine.engine import Change
from queue_engine.model import Pause, RedBase
from queue_engine.policy import Policy
from queue_engine.reasons import Reason
from queue_engine.standing import Standstill, Told
from queue_engine.steering import Steered
from queue_engine.store import Store
from tests.queue_engine.examples import HOUR, NOW, REPOSITORY
from tests.queue_engine.store.examples import queue, stand

ALARM = Pause(Reason.TREE_MISMATCH, "not what was tested", NOW)


async def steer(store: Store, how: Any, *, at: timedelta = timedelta(0), by: str = "rhea", **more: Any) -> Steered:
    """A hand on the wheel of `main`, that long after NOW."""
    async with store.transaction() as tx:
        steered: Steered = await how(Change(tx, NOW + at), REPOSITORY, "main", by=by, **more)
    return steered


async def events(store: Store) -> list[tuple[str, Reason | None, Any]]:
    async with store.reading() as tx:
        return [(e.event, e.reason, e.data) for e in reversed(await tx.timeline.latest(20))]


async def test_pause_of_a_queue_that_never_was_holds_it_before_anybody_comes(store: Store) -> None:
    """Who, why and since when are kept, and told in the timeline."""
    steered = await steer(store, steering.pause, reason="the fair")
    assert steered.queue.paused == Pause(Reason.PAUSED_BY_HAND, "the fair", NOW, None, "rhea")
    assert (steered.changed, steered.before, steered.concerned) == (True, None, ())
    assert await events(store) == [
        ("paused", Reason.PAUSED_BY_HAND, {"by": "rhea", "detail": "the fair", "until": None})
    ]


async def test_pause_names_all_whom_it_concerns_in_their_order(store: Store) -> None:
    """The answer to whoever paused says whom that holds up."""
    async with store.transaction() as t:
        main = await queue(t)
        await stand(t, main, 4)
        await stand(t, main, 9, priority=1)
        await stand(t, await queue(t, "release"), 5)
    assert (await steer(store, steering.pause)).concerned == (9, 4)


@pytest.mark.parametrize(
    ("how", "more"), [(steering.pause, {"reason": "x"}), (steering.freeze, {"until": NOW + HOUR, "reason": "x"})]
)
async def test_halt_that_is_asked_for_twice_is_one(store: Store, how: Any, more: dict[str, Any]) -> None:
    """A command that is carried out again after a kill changes nothing, whoever's name it is in."""
    first = await steer(store, how, **more)
    again = await steer(store, how, at=timedelta(minutes=1), by="max", **more)
    assert (first.changed, again.changed) == (True, False)
    assert again.queue.paused == first.queue.paused
    assert len(await events(store)) == 1


async def test_freeze_and_pause_hold_side_by_side_whichever_came_first(store: Store) -> None:
    """The end of the freeze ends no pause until further notice, and who lifts the pause finds the freeze."""
    freeze = Pause(Reason.FROZEN, "the fair", NOW, NOW + 2 * HOUR, "rhea")
    pause = Pause(Reason.PAUSED_BY_HAND, "look", NOW, None, "rhea")
    await steer(store, steering.freeze, until=NOW + HOUR)
    assert (await steer(store, steering.freeze, until=NOW + 2 * HOUR, reason="the fair")).changed
    steered = await steer(store, steering.pause, reason="look")
    assert (steered.changed, steered.before, steered.queue.paused, steered.queue.beneath) == (
        True,
        freeze,
        pause,
        freeze,
    )
    assert not (await steer(store, steering.freeze, until=NOW + 2 * HOUR, reason="the fair")).changed
    sooner = await steer(store, steering.freeze, until=NOW + HOUR)
    assert (sooner.changed, sooner.queue.paused) == (True, pause)
    resumed = await steer(store, steering.resume)
    assert resumed.queue.paused == Pause(Reason.FROZEN, "", NOW, NOW + HOUR, "rhea")
    thawed = await steer(store, steering.resume)
    assert (thawed.changed, thawed.queue.paused, thawed.queue.beneath) == (True, None, None)


async def test_resume_after_the_freeze_beneath_has_ended_lifts_all(store: Store) -> None:
    """Nobody has to resume twice for what is over."""
    await steer(store, steering.pause)
    await steer(store, steering.freeze, until=NOW + HOUR)
    assert (await steer(store, steering.resume, at=HOUR)).queue.paused is None


async def test_thaw_lifts_the_freeze_alone(store: Store) -> None:
    """A pause that stands over it stays; without a freeze nothing changes."""
    await steer(store, steering.pause)
    assert not (await steer(store, steering.thaw)).changed
    await steer(store, steering.freeze, until=NOW + HOUR)
    thawed = await steer(store, steering.thaw)
    assert (thawed.changed, thawed.queue.beneath) == (True, None)
    assert thawed.queue.paused is not None
    await steer(store, steering.resume)
    await steer(store, steering.freeze, until=NOW + HOUR)
    assert (await steer(store, steering.thaw)).queue.paused is None


async def test_alarm_over_a_freeze_leaves_it_in_force(store: Store) -> None:
    """Who has looked into it, and resumes, opens nothing that somebody wanted shut."""
    await steer(store, steering.freeze, until=NOW + HOUR)
    async with store.transaction() as t:
        await journal.pause(t, await queue(t), (), ALARM.reason, ALARM.detail, Policy(), NOW)
    resumed = await steer(store, steering.resume)
    assert resumed.queue.paused is not None
    assert resumed.queue.paused.reason is Reason.FROZEN


async def test_freeze_until_an_instant_that_has_passed_changes_nothing(store: Store) -> None:
    """Nothing is told for it either."""
    assert not (await steer(store, steering.freeze, until=NOW)).changed
    assert await events(store) == []


async def test_pause_after_a_freeze_that_has_ended_is_a_new_one(store: Store) -> None:
    """Whether its end has been noticed or not."""
    await steer(store, steering.freeze, until=NOW + HOUR)
    assert (await steer(store, steering.freeze, at=HOUR, until=NOW + 2 * HOUR)).changed


async def test_alarm_is_not_replaced_by_a_hand_that_pauses(store: Store) -> None:
    """Why the queue stands still remains to be read: what landed was not what was tested."""
    async with store.transaction() as t:
        await t.queues.pause((await queue(t)).id, ALARM)
    steered = await steer(store, steering.pause)
    assert (steered.changed, steered.queue.paused) == (False, ALARM)


@pytest.mark.parametrize("pause", [ALARM, Pause(Reason.FROZEN, "x", NOW, NOW + HOUR, "max")])
async def test_resume_lifts_any_pause_once(store: Store, pause: Pause) -> None:
    """The queue is due at once; the second resumption has nothing to lift, and says so."""
    async with store.transaction() as t:
        await t.queues.pause((await queue(t)).id, pause)
    steered = await steer(store, steering.resume, at=HOUR / 2)
    assert (steered.changed, steered.before, steered.queue.paused) == (True, pause, None)
    again = await steer(store, steering.resume)
    assert (again.changed, again.before) == (False, None)
    data = {"by": "rhea", "detail": pause.detail, "until": None}
    assert await events(store) == [("resumed", pause.reason, data)]
    async with store.reading() as t:
        due = await t.queues.next_due()
    assert due is not None
    assert due <= NOW + HOUR / 2


async def test_resume_tries_a_red_base_anew_and_is_told_once(store: Store) -> None:
    """Whoever says so knows better than the reports; the pass that tells the people writes it down no second time."""
    async with store.transaction() as t:
        main = await queue(t)
        await t.red_bases.note(main.id, RedBase("ci", "tip", NOW, 0, NOW + HOUR))
        await t.queues.note_told(main.id, Told.of(Standstill(Reason.BASE_RED, "ci"), ()).written())
    steered = await steer(store, steering.resume)
    assert (steered.changed, steered.queue.red) == (True, None)
    told = Told.read(steered.queue.told)
    assert told is not None
    assert told.noted
    assert [(event, reason) for event, reason, _ in await events(store)] == [("resumed", Reason.BASE_RED)]


async def test_resume_of_a_queue_that_goes_on_says_so(store: Store) -> None:
    """Also of one that never was."""
    assert not (await steer(store, steering.resume)).changed
    assert await events(store) == []
