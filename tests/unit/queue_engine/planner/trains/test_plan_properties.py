"""What holds of plans, whatever happens and in whichever order runs end."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from queue_engine.planner.trains.model import FailingRun, Member, NewRun, Plan, TrainRun, Trains
from queue_engine.planner.trains.plan import plan
from queue_engine.planner.trains.transitions import base_pushed, removed
from tests.unit.queue_engine.planner.trains.examples import USUAL, Driver, trains

FLAKY = 12
"""Runs that may flake in one example; then CI is honest."""


class CheckedDriver(Driver):
    """Fails if a plan has too many runs, or one that the policy does not allow."""

    def _carry_out(self, made: Plan) -> None:
        left = tuple(each for each in self.trains.runs if each.id not in made.cancel)
        state = replace(self.trains, runs=left)
        for number, new in enumerate(made.start, 1):
            assert is_allowed(new, state), (new, state)
            state = state.with_run(TrainRun(-number, new.content, new.tested, self.now))
        assert len(state.runs) <= max(state.slots, len(left))
        super()._carry_out(made)


def is_allowed(new: NewRun, state: Trains) -> bool:
    """Whether a run tests members in order, on qualified ones, on the whole content of another run or the base."""
    places = {each.id: place for place, each in enumerate(state.queue)}
    qualified = {each.id for each in state.queue if each.qualified}
    tested = new.content[-len(new.tested) :]
    beneath = new.content[: -len(new.tested)]
    bases = [run.content for run in (*state.runs, *state.passed) if run.extends_base]
    for base in ((), *bases):
        kept = tuple(each for each in base if each not in new.tested)
        carried = beneath[len(kept) :]
        if beneath[: len(kept)] == kept and set(carried) <= qualified and in_order(carried, places):
            return frozenset(tested) == new.tested and in_order(tested, places)
    return False


def in_order(members: Sequence[int], places: dict[int, int]) -> bool:
    """Whether members follow each other as in the queue."""
    return [*members] == sorted(members, key=places.__getitem__)


def play(data: st.DataObject, members: int, slots: int, bad: set[int], pairs: set[frozenset[int]]) -> Driver:
    """Let runs end in any order, some of them flaking, while members leave, hotfixes come, and the base is pushed to.

    No plan follows another one without a new fact.
    """
    driver = CheckedDriver(trains(members, slots), bad)
    agents = data.draw(st.dictionaries(st.integers(1, members), st.floats(0, 20 * USUAL), max_size=members))
    queue = [replace(each, yields_until=agents.get(each.id)) for each in driver.trains.queue]
    driver.trains = replace(driver.trains, queue=tuple(queue))
    hotfixes = data.draw(st.sets(st.integers(1, members), max_size=2))
    queue = sorted(driver.trains.queue, key=lambda each: each.id not in hotfixes)
    late = [replace(each, preempts=True) for each in queue if each.id in hotfixes]
    driver.trains = replace(driver.trains, queue=tuple(each for each in queue if each.id not in hotfixes))
    driver.settle()
    flakes = 0
    for _ in range(400):
        if late and (not driver.trains.runs or data.draw(st.booleans())):
            driver.trains = replace(driver.trains, queue=(late.pop(), *driver.trains.queue))
            driver.settle()
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


class BesideAgents(Driver):
    """Fails if a plan for people is another one beside agents, whose runs have begun in every free slot."""

    def _carry_out(self, made: Plan) -> None:
        agents = tuple(Member(number, 0.0, yields_until=1e9) for number in range(100, 130))
        free = range(self.trains.slots - len(self.trains.runs))
        busy = tuple(
            TrainRun(1000 + each, (100 + each,), frozenset({100 + each}), self.now - USUAL / 2) for each in free
        )
        queue = (*agents[:15], *self.trains.queue, *agents[15:])
        beside = plan(replace(self.trains, queue=queue, runs=(*self.trains.runs, *busy)), self.now)
        assert (beside.land, beside.eject) == (made.land, made.eject)
        if made.land is None and not made.eject:
            ended = {each for each in beside.cancel if each >= 1000}
            assert {*beside.cancel} - ended == {*made.cancel}
            assert len(ended) == max(0, len(made.start) - len(made.cancel))
            assert beside.start[: len(made.start)] == made.start
            assert all(each.content[0] >= 100 and min(each.content) >= 100 for each in beside.start[len(made.start) :])
        super()._carry_out(made)


@settings(max_examples=60, deadline=None)
@given(st.data(), st.integers(1, 12), st.sampled_from((1, 2, 4)))
def test_agents_change_nothing_of_what_is_planned_for_people(data: st.DataObject, members: int, slots: int) -> None:
    """P5: no run of people has a member of agents that yields, or waits for a run of theirs that has hardly begun."""
    bad = data.draw(st.sets(st.integers(1, members), max_size=4))
    driver = BesideAgents(trains(members, slots), bad)
    driver.finish()
    assert {*driver.ejected} == bad


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


def test_content_that_a_run_tests_on_the_base_gets_no_second_run() -> None:
    """P5: two failures with a common suspect need the same run; it starts once."""
    queue = tuple(Member(each, 0.0, 1.0) for each in range(12, 17))
    beside = TrainRun(1, (12, 13, 14, 15), frozenset({12, 13, 14, 15}), 2.0, extends_base=False)
    anchor = TrainRun(2, (16,), frozenset({16}), 2.0)
    failed = [((12, 13, 14, 15, 16), True), ((12, 13), False), ((12, 16), True)]
    failures = tuple(FailingRun(frozenset(content), frozenset(content), 1, on_base) for content, on_base in failed)
    state = Trains(4, USUAL, queue, runs=(beside, anchor), failures=failures, saved=32.0)
    started = [frozenset(new.content) for new in plan(state, 2 * USUAL).start]
    assert started
    assert len(started) == len({*started})


def test_chain_is_one_run_whose_failure_is_about_all_of_it() -> None:
    """P5: also a member that another one brings into the run is tested by it."""
    made = plan(Trains(1, USUAL, (Member(1, 0.0, after=(2,)), Member(2, 0.0))), 2.0)
    assert [(new.content, new.tested) for new in made.start] == [((2, 1), frozenset({1, 2}))]
    first = Trains(2, USUAL, (Member(1, 0.0, after=(3,)), Member(2, 0.0), Member(3, 0.0)))
    assert all(new.tested for new in plan(first, 2.0).start)
    assert {each for new in plan(first, 2.0).start for each in new.tested} == {1, 2, 3}


class OrderedDriver(Driver):
    """Fails if a run or a landing has a member without those that land before it; these leave with an ejected one."""

    after: dict[int, tuple[int, ...]]

    def _carry_out(self, made: Plan) -> None:
        for content in (*(new.content for new in made.start), *([made.land.content] if made.land else ())):
            before = set(self.landed)
            for each in content:
                assert before.issuperset(self.after[each]), (content, self.after)
                before.add(each)
        super()._carry_out(made)
        gone = set(made.eject)
        while later := {each.id for each in self.trains.queue if not gone.isdisjoint(self.after[each.id])} - gone:
            gone |= later
        for each in sorted(gone - set(made.eject)):
            self.trains = removed(self.trains, each)
        left = {each.id for each in self.trains.queue}
        queue = tuple(replace(each, after=tuple(sorted(left & {*self.after[each.id]}))) for each in self.trains.queue)
        self.trains = replace(self.trains, queue=queue)


def test_part_of_a_failed_chain_has_no_member_that_only_its_rest_needs() -> None:
    """P5: the run would rest on what failed alone; each plan would cancel it, and start it again."""
    queue = (Member(5, 0.0, 1.0), Member(6, 0.0, 1.0), Member(7, 0.0, 1.0, after=(5,)))
    failures = tuple(FailingRun(frozenset(each), frozenset(each)) for each in ((5, 6, 7), (5,)))
    driver = OrderedDriver(Trains(4, USUAL, queue, failures=failures), set())
    driver.after = {5: (), 6: (), 7: (5,)}
    driver.settle()
    assert (6,) in [run.content for run in driver.trains.runs]


@settings(max_examples=100, deadline=None)
@given(st.data(), st.integers(2, 9), st.sampled_from((1, 2, 4)))
def test_members_land_after_those_they_name_and_the_plan_ends(data: st.DataObject, members: int, slots: int) -> None:
    """P3, P5: in whatever order they were queued, whichever fail or flake."""
    ranks = data.draw(st.permutations(range(1, members + 1)))
    driver = OrderedDriver(trains(members, slots), data.draw(st.sets(st.integers(1, members), max_size=3)))
    driver.after = {
        each: tuple(data.draw(st.sets(st.sampled_from(ranks[:place]), max_size=2))) if place else ()
        for place, each in enumerate(ranks)
    }
    queue = tuple(replace(each, after=driver.after[each.id]) for each in driver.trains.queue)
    driver.trains = replace(driver.trains, queue=queue)
    driver.settle()
    for ended in range(300):
        if not driver.trains.runs:
            break
        run = data.draw(st.sampled_from(driver.trains.runs))
        flakes = ended < FLAKY and data.draw(st.booleans())
        driver.end(run, not flakes and not driver.bad & set(run.content))
    assert (driver.trains.queue, driver.trains.runs) == ((), ())
    assert not driver.bad & set(driver.landed)
