"""Plans of queues that show one rule each."""

from dataclasses import replace
from typing import Any

from queue_engine.planner.trains.model import Estimates, FailingRun, Member, Plan, Rate, TrainRun, Trains
from queue_engine.planner.trains.plan import affordable, failure_ejects, incomplete, plan
from queue_engine.planner.trains.suspicion import weigh
from queue_engine.planner.trains.transitions import base_pushed, removed, run_cancelled, run_failed, run_passed
from tests.unit.queue_engine.planner.trains.examples import USUAL, Driver, trains


def test_one_slot_tests_as_many_as_are_even() -> None:
    """At one failure in ten, seven members pass together about every second time."""
    driver = Driver(trains(20))
    driver.settle()
    (run,) = driver.trains.runs
    assert run.content == (1, 2, 3, 4, 5, 6, 7)


def test_good_members_land_together() -> None:
    """One run, one landing."""
    driver = Driver(trains(5))
    driver.finish()
    assert (driver.landed, len(driver.started)) == ([1, 2, 3, 4, 5], 1)


def test_bad_member_is_found_and_others_land() -> None:
    """The rest of its group lands, and it leaves only when its tree alone failed on the base."""
    driver = Driver(trains(7), bad={3})
    driver.finish()
    assert sorted(driver.landed) == [1, 2, 4, 5, 6, 7]
    assert driver.ejected == [3]
    assert (3,) in [new.content for new in driver.started]


def test_first_failure_alone_is_retested() -> None:
    """One failure may be a flake, and ejects no member."""
    driver = Driver(trains(1))
    driver.settle()
    driver.end(driver.trains.runs[0], passed=False)
    assert not driver.ejected
    driver.end(driver.trains.runs[0], passed=True)
    assert driver.landed == [1]


def test_probable_failures_are_tested_side_by_side() -> None:
    """With four slots and forty members, groups stand on the base, not on one another."""
    driver = Driver(trains(40, slots=4))
    driver.settle()
    contents = [run.content for run in driver.trains.runs]
    assert len(contents) == 4
    assert not any(set(one) & set(other) for one in contents for other in contents if one is not other)


def test_members_that_waited_for_a_fuller_run_are_one_run() -> None:
    """Free slots part those that did not wait; parts would undo what the others waited for."""
    for fills, contents in ((False, [(1,), (1, 2), (1, 2, 3)]), (True, [(1, 2, 3)])):
        driver = Driver(replace(trains(3, slots=4), fills=fills))
        driver.settle()
        assert sorted(run.content for run in driver.trains.runs) == contents


def test_members_wait_only_until_a_run_has_all_that_it_may_test() -> None:
    """Those that a run tests, that passed or that are suspected wait for no others."""
    queue = replace(trains(4), most=3)
    assert [each.id for each in incomplete(queue)] == []
    tested = queue.with_run(TrainRun(1, (1, 2), frozenset({1, 2}), 0.0))
    assert [each.id for each in incomplete(tested)] == [3, 4]
    assert [each.id for each in incomplete(run_failed(tested, tested.runs[0]))] == [3, 4]
    assert [each.id for each in incomplete(run_passed(tested, tested.runs[0], 1.0))] == [3, 4]
    assert [each.id for each in incomplete(replace(trains(2), most=3))] == [1, 2]
    assert incomplete(replace(trains(3), most=3)) == (), "a run has all that it may test"


def test_members_that_come_one_by_one_are_nested() -> None:
    """While slots are free, a run on top of a probably good one lands both sooner."""
    driver = Driver(trains(1, slots=4))
    driver.settle()
    driver.join(2)
    assert [run.content for run in driver.trains.runs] == [(1,), (1, 2)]


def test_siblings_that_passed_are_combined_before_they_land() -> None:
    """The union of two trees that passed apart is an untested tree."""
    driver = Driver(trains(16, slots=2))
    driver.settle()
    first, second = driver.trains.runs
    driver.end(first, passed=True)
    assert driver.landed == list(first.content)
    driver.end(driver.run(second.id), passed=True)
    assert driver.landed == list(first.content)
    driver.finish()
    assert sorted(driver.landed) == list(range(1, 17))


def test_landing_waits_for_a_longer_run_that_is_nearly_done() -> None:
    """A short landing would throw away the longer one, which very probably passes."""
    state = replace(trains(9, slots=2), estimates=Estimates(fails=Rate(0.01, 100)))
    short, long = TrainRun(1, (9,), frozenset({9}), 0.0), TrainRun(2, (1, 2, 3, 4), frozenset({1, 2, 3, 4}), 0.0)
    passed = run_passed(replace(state, runs=(short, long)), short, 0.9 * USUAL)
    assert plan(passed, 0.9 * USUAL).land is None
    assert plan(run_failed(passed, long), USUAL).land == short


def test_members_that_only_fail_together_are_cut_apart() -> None:
    """Two that passed apart break together: one lands, the other is ejected."""
    queue = tuple(replace(each, qualified_at=0.0) for each in trains(4).queue)
    state = replace(trains(4), queue=queue, failures=(FailingRun(frozenset({1, 2, 3, 4}), frozenset({1, 2, 3, 4})),))
    assert plan(state, 1.0).start[0].content == (1, 2)


def test_hotfix_takes_the_slot_of_the_youngest_run() -> None:
    """It runs at once, although all slots were taken."""
    driver = Driver(trains(20))
    driver.settle()
    hotfix = Member(21, 0.0, preempts=True)
    driver.trains = replace(driver.trains, queue=(hotfix, *driver.trains.queue))
    made = plan(driver.trains, 1.0)
    assert made.cancel == (1,)
    assert made.start[0].content[0] == 21


def test_push_of_somebody_else_to_the_base_lands_nothing_untested() -> None:
    """Runs that were started before it tell of their members, and land no more."""
    driver = Driver(trains(3))
    driver.settle()
    driver.trains = base_pushed(driver.trains)
    driver.end(driver.trains.runs[0], passed=True)
    assert not driver.landed
    driver.finish()
    assert driver.landed == [1, 2, 3]


def test_member_that_left_ends_the_runs_with_it() -> None:
    """Its run is cancelled, and the others are tested without it."""
    driver = Driver(trains(3))
    driver.settle()
    driver.trains = removed(driver.trains, 2)
    assert plan(driver.trains, 1.0).cancel == (1,)
    driver.finish()
    assert driver.landed == [1, 3]


def test_plan_without_a_new_fact_is_empty() -> None:
    """Time alone cancels and composes no run."""
    driver = Driver(trains(30, slots=3))
    driver.settle()
    assert plan(driver.trains, 3 * USUAL) == Plan()


def test_failure_alone_is_proof_only_after_another_failure_of_the_member() -> None:
    """A check that may flake runs again, one of a member that failed in a group before does not."""
    driver = Driver(trains(2))
    alone = TrainRun(1, (1,), frozenset({1}), 0.0)
    assert not failure_ejects(driver.trains, alone, driver.now)
    group = TrainRun(2, (1, 2), frozenset({1, 2}), 0.0)
    assert failure_ejects(run_failed(driver.trains, group), alone, driver.now)


def test_hotfix_is_tested_before_members_of_a_failed_run() -> None:
    """Otherwise the hotfix would preempt their next run again and again."""
    driver = Driver(trains(4), bad={1})
    driver.settle()
    driver.end(driver.trains.runs[0], passed=False)
    driver.join(9, preempts=True)
    assert [run.content for run in driver.trains.runs] == [(9,)]


ALONE = FailingRun(frozenset({1}), frozenset({1}))
BESIDE = FailingRun(frozenset({1}), frozenset({1, 2}))
"""The other member of this failed run has passed since."""


def test_suspect_is_not_ejected_before_a_run_failed_with_it_alone() -> None:
    """The tree of both failed, however probable the cause is: no run showed that its own tree fails."""
    state = replace(trains(2), failures=(BESIDE, BESIDE))
    made = plan(state, 1.0)
    assert (made.eject, made.start[0].content) == ((), (1,))
    assert plan(replace(state, failures=(BESIDE, ALONE)), 1.0).eject == (1,)


def test_suspect_is_not_ejected_while_a_run_tests_it_alone_on_the_present_base() -> None:
    """That run may pass; one on a former base decides nothing."""
    retest = TrainRun(5, (1,), frozenset({1}), 0.0)
    state = replace(trains(2), failures=(ALONE, ALONE), runs=(retest,))
    assert plan(state, 1.0).eject == ()
    assert plan(replace(state, runs=(replace(retest, extends_base=False),)), 1.0).eject == (1,)


def test_doubt_counts_less_once_the_oldest_member_has_waited_for_six_runs() -> None:
    """P5: others wait behind a member that failed once alone, and may have flaked."""
    state = replace(trains(2), failures=(ALONE,), estimates=Estimates(flakes=Rate(0.01, 50)))
    state = replace(state, queue=(state.queue[0], replace(state.queue[1], since=6 * USUAL)))
    assert plan(state, 6 * USUAL).eject == ()
    assert plan(state, 6 * USUAL + 1).eject == (1,)


def test_run_of_suspects_that_passed_before_is_not_cancelled_by_a_push_to_the_base() -> None:
    """Its outcome still says which of them break together."""
    queue = tuple(replace(each, qualified_at=0.0) for each in trains(2).queue)
    run = TrainRun(5, (1,), frozenset({1}), 0.0, extends_base=False)
    both = FailingRun(frozenset({1, 2}), frozenset({1, 2}))
    assert plan(replace(trains(2), queue=queue, runs=(run,), failures=(both,)), 1.0).cancel == ()
    assert plan(replace(trains(2), queue=queue, runs=(run,)), 1.0).cancel == (5,)


def test_hotfixes_cancel_one_run_at_a_time_and_none_once_they_passed() -> None:
    """Both fit into one run, and one that passed waits for no slot."""
    runs = tuple(TrainRun(number, (number,), frozenset({number}), 0.0) for number in (1, 2))
    state = replace(trains(2, slots=2), runs=runs)
    hotfixes = tuple(Member(number, 0.0, preempts=True) for number in (8, 9))
    assert plan(replace(state, queue=(*hotfixes, *state.queue)), 1.0).cancel == (2,)
    passed = tuple(replace(each, qualified_at=0.5) for each in hotfixes)
    assert plan(replace(state, queue=(*passed, *state.queue)), 1.0).cancel == ()


def test_longest_run_that_passed_lands_and_waits_for_none_on_top_of_it() -> None:
    """One landing moves the base for all of its members; a run on top of it stays valid."""
    short, long = (TrainRun(last, tuple(range(1, last + 1)), frozenset({last}), 0.0) for last in (1, 2))
    top = TrainRun(3, (1, 2, 3, 4, 5, 6), frozenset({3, 4, 5, 6}), 0.0)
    state = replace(trains(6, slots=2), estimates=Estimates(fails=Rate(0.01, 100)), passed=(short, long), runs=(top,))
    assert plan(state, USUAL).land == long


def test_landing_does_not_wait_for_a_run_that_rather_fails() -> None:
    """Its many members would outweigh one that has passed, if their chance did not count by itself."""
    passed = TrainRun(1, (9,), frozenset({9}), 0.0)
    rival = TrainRun(2, (1, 2, 3, 4, 5, 6, 7, 8), frozenset(range(1, 9)), 0.0)
    assert plan(replace(trains(9, slots=2), passed=(passed,), runs=(rival,)), USUAL).land == passed


def test_probable_culprit_is_tested_alone_on_the_base() -> None:
    """On top of other members its failure would eject none of them."""
    anchor = TrainRun(5, (2,), frozenset({2}), 0.0)
    state = replace(trains(2, slots=2), estimates=Estimates(fails=Rate(0.05, 100)), runs=(anchor,))
    assert plan(replace(state, failures=(BESIDE,)), 1.0).start[0].content == (1,)
    assert plan(state, 1.0).start[0].content == (2, 1)


def test_run_of_good_members_has_at_most_thirty_two() -> None:
    """One failure among hundreds would take many runs to find."""
    state = replace(trains(60), estimates=Estimates(fails=Rate(0.001, 1000)))
    assert len(plan(state, 1.0).start[0].tested) == 32


def both_failed(*members: int, **more: Any) -> FailingRun:
    """A run of these that failed."""
    return FailingRun(frozenset(members), frozenset(members), **more)


def test_failure_is_explained_by_a_smaller_one_within_it() -> None:
    """P5: the others of the larger run are as good as fresh, and it is not cut again."""
    state = replace(trains(4), failures=(both_failed(1, 2, 3, 4), both_failed(1, times=2)))
    evidence = weigh(state)
    assert [each.content for each in evidence.unexplained] == [{1}]
    assert evidence.chances[1] > 0.98
    assert [evidence.chances[each] for each in (2, 3, 4)] == [0.1] * 3


def test_content_that_failed_on_this_base_is_cut_within() -> None:
    """P5: where runs flake, both would be the most informative run; it has failed already."""
    flaky = Estimates(fails=Rate(0.1, 100), flakes=Rate(0.5, 100))
    state = replace(trains(2), estimates=flaky, failures=(both_failed(1, 2),))
    assert plan(state, 1.0).start[0].content == (1,)
    elsewhere = replace(state, failures=(both_failed(1, 2, on_base=False),))
    assert plan(elsewhere, 1.0).start[0].content == (1, 2)


def test_qualified_members_that_failed_together_are_not_combined_again() -> None:
    """P5: a run that contains what failed, and hardly flaked, shows nothing new."""
    queue = tuple(replace(each, qualified_at=0.0) for each in trains(3).queue)
    state = replace(trains(3, slots=2), queue=queue, failures=(both_failed(1, 2, times=3),))
    contents = [set(each.content) for each in plan(state, 1.0).start]
    assert contents
    assert not any({1, 2} <= each for each in contents)


def test_member_that_failed_alone_too_often_leaves_however_flaky_ci_is() -> None:
    """P5: it is bounded how often one tree is tested."""
    flaky = Estimates(flakes=Rate(0.9, 400))
    state = replace(trains(2), estimates=flaky, failures=(both_failed(1, times=7),))
    assert plan(state, 1.0).eject == ()
    assert plan(replace(state, failures=(both_failed(1, times=8),)), 1.0).eject == (1,)


def test_run_that_passed_and_waits_to_land_is_not_started_again() -> None:
    """P5: its tree would pass at once, and wait again, for ever."""
    queue = tuple(replace(each, qualified_at=0.0 if each.id in (1, 8) else None) for each in trains(8).queue)
    passed = TrainRun(1, (1,), frozenset({1}), 0.0)
    rival = TrainRun(2, (2, 3, 4, 5, 6, 7), frozenset({2, 3, 4, 5, 6, 7}), 0.0)
    state = replace(trains(8, slots=2), queue=queue, estimates=Estimates(fails=Rate(0.01, 100)))
    state = replace(state, passed=(passed,), runs=(rival,), failures=(both_failed(1, 8),))
    made = plan(state, USUAL)
    assert made.land is None
    assert (1,) not in [each.content for each in made.start]


def test_slots_are_used_where_the_run_of_all_that_passed_is_under_way() -> None:
    """A member that failed alone waits for it, too; suspects and new members are tested beside that run."""
    queue = [replace(each, qualified_at=0.0 if each.id < 5 else None) for each in trains(20).queue]
    failed = FailingRun(frozenset({1}), frozenset({1}), on_base=False)
    rates = Estimates(fails=Rate(0.1, 100), fails_later=Rate(0.05, 100))
    state = Trains(8, USUAL, tuple(queue), failures=(failed,), estimates=rates)
    state = state.with_run(TrainRun(1, (2, 3, 4), frozenset({2, 3, 4}), 0.0))
    started = [new.content for new in plan(state, 1.0).start]
    assert len(started) == 7
    assert started[0] == (1,)
    assert {*range(5, 21)} <= {each for content in started for each in content}
    assert (2, 3, 4) not in started


def test_member_whose_own_head_fails_is_tested_alone_in_its_order() -> None:
    """P5: it joins no run of others, and others do not starve it."""
    red = replace(trains(4).queue[0], head_fails=True)
    state = trains(4)
    first, later = replace(state, queue=(red, *state.queue[1:])), replace(state, queue=(*state.queue[1:], red))
    assert plan(first, 1.0).start[0].content == (1,)
    assert plan(later, 1.0).start[0].content == (2, 3, 4)
    between = replace(state, queue=(state.queue[1], red, *state.queue[2:]), estimates=Estimates(Rate(0.01, 100)))
    assert plan(between, 1.0).start[0].content == (2, 3, 4)
    green = replace(state, queue=(replace(red, head_fails=False), *state.queue[1:]))
    assert plan(green, 1.0).start[0].content == (1, 2, 3, 4)


def test_where_two_in_five_fail_each_member_is_tested_alone() -> None:
    """Golomb: a run of two would cost more than it saves."""
    shares = {share: replace(trains(20), estimates=Estimates(fails=Rate(share, 100))) for share in (0.37, 0.39)}
    assert [len(plan(state, 1.0).start[0].content) for state in shares.values()] == [2, 1]


def test_more_runs_at_once_are_paid_by_saved_runs_where_no_member_joins() -> None:
    """P5: a run of one member costs what one by one costs, and one run at once costs least."""
    state, later = trains(40, slots=10), 2 * USUAL
    assert [affordable(replace(state, saved=saved), later) for saved in (40.0, 10.0, 6.5, 0.0, -30.0)] == [
        10,
        10,
        6,
        2,
        2,
    ]
    assert affordable(replace(trains(40, slots=4), saved=-30.0), later) == 1
    assert len(plan(replace(trains(40, slots=4), saved=-6.0), later).start) == 1


def test_queue_that_members_keep_joining_has_all_of_its_runs() -> None:
    """With fewer it might never become short, whatever it has cost."""
    state = replace(trains(40, slots=4), saved=-30.0)
    joined = replace(state, queue=(*state.queue, Member(41, 1.5 * USUAL)))
    assert [affordable(each, 2 * USUAL) for each in (state, joined)] == [1, 4]


def test_member_that_lands_before_another_is_tested_first_although_it_joined_later() -> None:
    """A run has as many members as it may: it does not test the other one with all that lands before it."""
    queue = (Member(2, 0.0, after=(1,)), Member(1, 1.0))
    (new,) = plan(replace(trains(0), queue=queue, most=1), 2.0).start
    assert new.content == (1,)


def beside_agents(slots: int, *runs: TrainRun, **more: Any) -> Trains:
    """Members 1 and 2 of people, and 3 to 5 of agents that yield."""
    members = tuple(Member(number, 0.0, yields_until=1e9 if number > 2 else None) for number in range(1, 6))
    return replace(trains(0, slots), queue=members, runs=runs, **more)


def test_run_of_agents_near_its_end_keeps_its_slot_but_for_a_hotfix() -> None:
    """P5: what agents have nearly paid for is not lost; a young run ends for people."""
    run, late = TrainRun(1, (3, 4), frozenset({3, 4}), 0.0), USUAL * 0.7
    assert plan(beside_agents(1, run), USUAL * 0.6).cancel == (1,)
    assert plan(beside_agents(1, run), late) == Plan()
    urgent = beside_agents(1, run)
    urgent = replace(urgent, queue=(replace(urgent.queue[0], preempts=True), *urgent.queue[1:]))
    assert plan(urgent, late).cancel == (1,)
    made = plan(beside_agents(2, run), late)
    assert (made.cancel, [each.content for each in made.start]) == ((), [(1, 2)])


def test_run_of_agents_that_may_hang_ends_for_people_and_before_a_young_one() -> None:
    """P5: people wait for it no longer than two usual runs."""
    hangs, young = TrainRun(1, (3,), frozenset({3}), 0.0), TrainRun(2, (4,), frozenset({4}), USUAL * 1.9)
    assert plan(beside_agents(1, hangs), USUAL * 1.9) == Plan()
    made = plan(beside_agents(1, hangs), USUAL * 2)
    assert (made.cancel, made.yields) == ((1,), (1,))
    state = beside_agents(2, hangs, young)
    made = plan(replace(state, queue=state.queue[1:]), USUAL * 2)
    assert (made.cancel, [each.content for each in made.start]) == ((1,), [(2,)])


def test_run_of_agents_ends_nine_times_in_a_row_and_for_none_after_half_of_the_time_until_its_key() -> None:
    """P5: each end costs CI; a run with an outcome has its members yield again."""
    state = beside_agents(1, TrainRun(1, (3, 4), frozenset({3, 4}), 0.0))
    for number in range(1, 10):
        (ended,) = state.runs
        assert plan(state, 0.0).yields == (number,)
        state = run_cancelled(state, ended, yields=True).with_run(replace(ended, id=number + 1))
    assert plan(state, 0.0) == Plan()
    lost = run_cancelled(state, state.runs[0]).with_run(state.runs[0])
    assert plan(lost, 0.0) == Plan()
    beside_another = replace(
        state, queue=tuple(replace(each, yields=each.yields * (each.id == 3)) for each in state.queue)
    )
    assert plan(beside_another, 0.0) == Plan()
    (ended,) = state.runs
    for known in (run_failed(state, ended), run_passed(replace(state, runs=(ended,)), ended, 1.0)):
        again = replace(known, passed=(), failures=()).with_run(TrainRun(11, (3, 4), frozenset({3, 4}), 0.0))
        assert plan(again, 0.0).yields == (11,)
    run = TrainRun(1, (3, 4), frozenset({3, 4}), USUAL * 6.8)
    state = beside_agents(1, run)
    queue = tuple(replace(each, yields_until=each.yields_until and USUAL * 14) for each in state.queue)
    assert plan(replace(state, queue=queue), USUAL * 6.9).yields == (1,)
    assert plan(replace(state, queue=queue), USUAL * 7.1) == Plan()
    later = tuple(replace(each, yields_until=1e9) if each.id == 4 else each for each in queue)
    assert plan(replace(state, queue=later), USUAL * 7.1) == Plan()
    assert plan(replace(state, queue=queue), USUAL * 8.9).yields == (1,), "it may hang"


def test_run_of_agents_lands_while_nothing_of_people_is_on_the_present_base() -> None:
    """P5: it makes no run of people one on a former base, and repeats no search of theirs."""
    passed, run = TrainRun(1, (3,), frozenset({3}), 0.0), TrainRun(2, (1, 2), frozenset({1, 2}), 0.0)
    assert plan(beside_agents(2, run, passed=(passed,)), USUAL).land is None
    assert plan(beside_agents(2, replace(run, extends_base=False), passed=(passed,)), USUAL).land == passed
    red = FailingRun(frozenset({1, 2}), frozenset({1, 2}))
    assert plan(beside_agents(2, passed=(passed,), failures=(red,)), USUAL).land is None
    assert plan(beside_agents(2, passed=(passed,), failures=(replace(red, on_base=False),)), USUAL).land == passed


def test_member_of_agents_yields_until_people_need_it_or_it_has_waited() -> None:
    """P3, P5: with what is after it, with others of its failed run, and after six usual runs and its own time."""

    def tested(state: Trains, now: float = 0.0) -> list[tuple[int, ...]]:
        return [each.content for each in plan(state, now).start]

    state = beside_agents(1)
    assert tested(state) == [(1, 2)]
    of_people, agents = state.queue[:2], state.queue[2:]
    assert tested(replace(state, queue=(*of_people[:1], replace(of_people[1], after=(3,)), *agents))) == [(1, 3, 2)]
    waits = replace(state, queue=(*of_people, replace(agents[0], after=(2,)), *agents[1:]), slots=3)
    assert tested(waits) == [(1,), (1, 2), (4, 5)]
    waited = replace(state, queue=(*of_people, replace(agents[0], yields_until=1.0), *agents[1:]))
    assert tested(waited, USUAL * 5.9) == [(1, 2)]
    assert tested(waited, USUAL * 6.1) == [(1, 2, 3)]
    both = FailingRun(frozenset({3, 4}), frozenset({3, 4}))
    assert tested(replace(waited, failures=(both,)), USUAL * 5.9) == [(1, 2)]
    assert tested(replace(waited, failures=(both,)), USUAL * 6.1) == [(3,)]
    run = TrainRun(1, (3, 4), frozenset({3, 4}), USUAL * 6)
    assert plan(replace(waited, runs=(run,)), USUAL * 6.1) == Plan()


def test_runs_that_agents_saved_pay_for_runs_of_agents_alone() -> None:
    """P5: a person's run costs agents nothing, and their failures cost people no slot."""
    state = beside_agents(6, saved=-9.0, saved_by_agents=4.0)
    runs = [each.content for each in plan(state, USUAL * 2).start]
    assert [sum(each[0] > 2 for each in runs), len(runs)] == [3, 4]
    state = replace(state, queue=tuple(replace(each, yields_until=None) for each in state.queue))
    assert len(plan(state, USUAL * 2).start) == 1
