"""What a pass, a landing and a departure change in what plans know."""

from dataclasses import replace

import pytest

from queue_engine.planner.trains.model import FailingRun, Member, TrainRun, Trains
from queue_engine.planner.trains.transitions import (
    base_pushed,
    ejected,
    removed,
    run_cancelled,
    run_failed,
    run_landed,
    run_passed,
)
from tests.unit.queue_engine.planner.trains.examples import trains


def run(number: int, *content: int, extends_base: bool = True) -> TrainRun:
    """A run that tests all of its members."""
    return TrainRun(number, content, frozenset(content), 0.0, extends_base)


def failed(*content: int, suspects: tuple[int, ...]) -> FailingRun:
    """A failed run, some of whose members have passed since."""
    return FailingRun(frozenset(suspects), frozenset(content))


def with_runs(*runs: TrainRun, passed: tuple[TrainRun, ...] = (), failures: tuple[FailingRun, ...] = ()) -> Trains:
    """Three members, with these runs."""
    return replace(trains(3), runs=runs, passed=passed, failures=failures)


def test_run_on_another_base_never_extends_it_again() -> None:
    """P1: it begins with the members that landed, and its tree still lacks what somebody pushed."""
    state = with_runs(run(5, 1, 2, extends_base=False), passed=(run(6, 1),))
    landed = run_landed(state, state.passed[0])
    assert landed.runs == (replace(run(5, 2, extends_base=False), tested=frozenset({1, 2})),)
    assert run_passed(landed, landed.runs[0], 1.0).passed == ()


def test_run_with_other_members_first_does_not_extend_a_landing() -> None:
    """P1: the base has a member now that its tree lacks."""
    state = with_runs(run(5, 2, 3), passed=(run(6, 1),))
    assert not run_landed(state, state.passed[0]).runs[0].extends_base


def test_run_whose_members_all_landed_with_another_one_lands_no_more() -> None:
    """A part of a train that landed has nothing left."""
    state = with_runs(passed=(run(5, 1), run(6, 1, 2), run(7, 1, 2, 3), run(8, 1, 2)))
    assert [each.id for each in run_landed(state, state.passed[1]).passed] == [7]


def test_run_that_passed_does_not_land_once_a_member_left() -> None:
    """P4: its tree has that member."""
    state = removed(with_runs(passed=(run(5, 1, 2), run(6, 1))), 2)
    assert [each.id for each in state.passed] == [6]


def test_failed_run_counts_against_its_last_member_alone_once_the_others_landed() -> None:
    """Then exactly its tree on the present base was seen to fail."""
    state = with_runs(passed=(run(5, 1),), failures=(failed(1, 2, suspects=(2,)), failed(1, suspects=(1,))))
    assert run_landed(state, state.passed[0]).failures == (failed(2, suspects=(2,)),)


@pytest.mark.parametrize(("content", "flaked"), [((1,), False), ((1, 2), True)])
def test_failed_run_flaked_only_if_all_of_its_members_passed_together(content: tuple[int, ...], flaked: bool) -> None:
    """Members that pass apart may still break together: then all of them are suspected again."""
    state = with_runs(run(5, *content), failures=(failed(1, 2, suspects=content),))
    after = run_passed(state, state.runs[0], 1.0)
    assert after.failures == (() if flaked else (failed(1, 2, suspects=(1, 2)),))
    assert (after.estimates.flakes.share > state.estimates.flakes.share) is flaked


def test_content_that_failed_thrice_and_passes_had_three_flakes() -> None:
    """Counted once, CI would seem to flake less than it does, and good pull requests would leave."""
    state = with_runs(run(5, 1), failures=(replace(failed(1, suspects=(1,)), times=3),))
    flakes = run_passed(state, state.runs[0], 1.0).estimates.flakes
    before = state.estimates.flakes
    assert flakes.share * flakes.weight == pytest.approx(before.share * before.weight + 3)
    assert flakes.weight == before.weight + 4


def test_member_waits_since_its_first_pass() -> None:
    """A later pass does not make it wait for longer until it lands."""
    first = run_passed(with_runs(run(5, 1)), run(5, 1), 1.0)
    again = run_passed(replace(first, runs=(run(6, 1),)), run(6, 1), 9.0)
    assert [each.qualified_at for each in again.queue] == [1.0, None, None]


def test_failures_of_one_content_are_one() -> None:
    """P5: a plan would take the same failure for more and more evidence."""
    state = with_runs(run(5, 1, 2), run(6, 2, 1))
    for each in state.runs:
        state = run_failed(state, each)
    assert state.failures == (replace(failed(1, 2, suspects=(1, 2)), times=2),)


def test_failed_content_is_on_the_base_while_only_its_own_members_land() -> None:
    """The tree of the rest is the very tree that failed; with another member, or a push, it is another tree."""
    state = with_runs(passed=(run(5, 1), run(6, 3)), failures=(failed(1, 2, suspects=(2,)),))
    assert run_landed(state, state.passed[0]).failures == (failed(2, suspects=(2,)),)
    assert run_landed(state, state.passed[1]).failures == (replace(failed(1, 2, suspects=(2,)), on_base=False),)
    assert base_pushed(state).failures == (replace(failed(1, 2, suspects=(2,)), on_base=False),)


def test_run_on_a_former_base_proves_no_flake_on_the_present_one() -> None:
    """It passed without what landed since, and may break with that."""
    state = with_runs(run(5, 2, extends_base=False), failures=(failed(2, suspects=(2,)),))
    assert run_passed(state, state.runs[0], 1.0).failures == state.failures
    assert run_passed(state, replace(state.runs[0], extends_base=True), 1.0).failures == ()


def test_failures_are_bounded_and_explained_ones_go_first() -> None:
    """The memory of a queue whose CI is broken does not grow for ever."""
    state = with_runs()
    state = run_failed(state, run(1, 1, 2))
    for number in range(100):
        state = run_failed(state, run(number, 1, 2, 100 + number))
    assert len(state.failures) == 64
    assert state.failures[0].content == {1, 2}


def test_saved_runs_count_landings_and_ejections_against_runs() -> None:
    """One by one a landing costs a run, and an ejection two; bounded, so that no time pays for all that follow."""
    state = with_runs(run(5, 1, 2))
    landed = run_landed(run_passed(state, state.runs[0], 1.0), state.runs[0])
    assert landed.saved == pytest.approx(1.0, abs=0.1)
    assert ejected(landed, landed.queue[0]).saved == pytest.approx(3.0, abs=0.1)
    for _ in range(100):
        state = run_failed(replace(state, runs=(run(5, 1),)), run(5, 1))
    assert state.saved == -32


def test_runs_and_members_of_agents_are_counted_apart() -> None:
    """P5: that agents' runs fail says nothing of how many runs people may have."""
    members = (Member(1, 0.0), Member(2, 0.0, yields_until=9.0))
    state = replace(with_runs(run(1, 1), run(2, 2)), queue=members)
    ended = run_cancelled(run_failed(state, run(2, 2)), run(1, 1))
    assert (ended.saved, ended.saved_by_agents) == (-1, -1)
    only_agents = ejected(run_failed(state, run(2, 2)), members[1])
    assert (only_agents.saved, only_agents.saved_by_agents > 0) == (0, True)
    landed = run_landed(run_passed(state, run(1, 1), 1.0), run(1, 1))
    assert (landed.saved > -1, landed.saved_by_agents) == (True, 0)
