"""What holds of plans, whatever happens and in whichever order runs end."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.planner.trains.model import Member, Plan, Trains
from queue_engine.planner.trains.plan import plan
from queue_engine.planner.trains.transitions import base_pushed, removed
from tests.unit.queue_engine.planner.trains.examples import USUAL, Driver, trains

FLAKY = 12
"""Runs that may flake in one example; then CI is honest."""


def play(data: st.DataObject, members: int, slots: int, bad: set[int], pairs: set[frozenset[int]]) -> Driver:
    """Let runs end in any order, some of them flaking, while members leave and others push to the base."""
    driver = Driver(trains(members, slots), bad)
    driver.settle()
    flakes = 0
    for _ in range(400):
        if not driver.trains.runs:
            break
        assert len(driver.trains.runs) <= slots
        assert plan(driver.trains, driver.now) == Plan()
        run = data.draw(st.sampled_from(driver.trains.runs))
        happens = data.draw(st.sampled_from(("end",) * 6 + ("flake", "leave", "push"))) if flakes < FLAKY else "end"
        flakes += happens != "end"
        if happens == "leave":
            gone = data.draw(st.sampled_from(driver.trains.queue))
            driver.trains = removed(driver.trains, gone.id)
            driver.settle()
        elif happens == "push":
            driver.trains = base_pushed(driver.trains)
            driver.settle()
        else:
            tree = {*run.content, *driver.landed}
            honest = not bad & set(run.content) and not any(pair <= tree for pair in pairs)
            driver.end(run, honest and happens == "end")
    return driver


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 14), st.sampled_from((1, 2, 4, 16)))
def test_bad_members_never_land_and_every_member_is_resolved(data: st.DataObject, members: int, slots: int) -> None:
    """The base never gets a bad member, no run is forgotten, and the queue ends empty."""
    bad = data.draw(st.sets(st.integers(1, members), max_size=4))
    driver = play(data, members, slots, bad, set())
    assert not bad & set(driver.landed)
    assert len(driver.landed) == len(set(driver.landed))
    assert driver.trains.queue == ()
    assert driver.trains.runs == ()


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(2, 10), st.sampled_from((1, 4, 16)))
def test_members_that_break_together_never_both_land(data: st.DataObject, members: int, slots: int) -> None:
    """Each passes alone; the base gets one of the two."""
    pair = frozenset(data.draw(st.lists(st.integers(1, members), min_size=2, max_size=2, unique=True)))
    driver = play(data, members, slots, set(), {pair})
    assert not pair <= set(driver.landed)
    assert driver.trains.queue == ()


@settings(max_examples=30, deadline=None)
@given(st.data(), st.integers(1, 14), st.sampled_from((1, 4)))
def test_same_log_gives_the_same_plans(data: st.DataObject, members: int, slots: int) -> None:
    """Another process that reads the same outcomes comes to the same plans."""
    bad = data.draw(st.sets(st.integers(1, members), max_size=3))
    order = data.draw(st.lists(st.integers(0, 100), min_size=200, max_size=200))
    played = []
    for _ in range(2):
        left = iter(order)

        def choose(count: int, left: Iterator[int] = left) -> int:
            return next(left, 0) % count

        driver = Driver(trains(members, slots), bad)
        driver.finish(choose)
        played.append(driver.plans)
    assert played[0] == played[1]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 60), st.sampled_from((1, 4, 16)), st.sets(st.integers(1, 60)))
def test_every_run_has_queued_members_once(members: int, slots: int, qualified: set[int]) -> None:
    """No run has a member twice, a stranger, or nothing to test."""
    state = trains(members, slots)
    queue = tuple(replace(each, qualified_at=0.0) if each.id in qualified else each for each in state.queue)
    made = plan(replace(state, queue=queue), USUAL)
    known = {each.id for each in state.queue}
    for new in made.start:
        assert len(set(new.content)) == len(new.content)
        assert set(new.content) <= known
        assert new.tested
        assert new.tested <= set(new.content)
        assert len(new.tested) <= max(32, len(qualified))
    assert len(made.start) <= slots


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_long_queue_is_planned_whole(slots: int) -> None:
    """Two hundred members of all kinds are no reason to leave a slot free."""
    queue = tuple(Member(each, 0.0, 1.0 if each % 5 == 0 else None) for each in range(200))
    made = plan(Trains(slots, USUAL, queue), 2.0)
    assert len(made.start) == slots
