"""Each check has a flake rate of its own, by which plans weigh the failures of runs."""

from dataclasses import replace

from queue_engine.planner.trains.memory import Memory, from_json, to_json
from queue_engine.planner.trains.model import FLAKES, FailingRun, Rate, TrainRun, Trains
from queue_engine.planner.trains.plan import plan
from queue_engine.planner.trains.suspicion import weigh
from queue_engine.planner.trains.transitions import run_failed, run_passed
from tests.unit.queue_engine.planner.trains.examples import trains

ONE = frozenset({1})
NOW = 10_000.0


def state(*checks: str, times: int = 2) -> Trains:
    """A queue whose first member failed alone so often, by these checks; `e2e` flakes often, `unit` never did."""
    failed = FailingRun(ONE, ONE, times, checks=checks)
    rates = {"e2e": Rate(0.4, 100.0), "unit": Rate(0.0, 400.0)}
    return replace(trains(3), failures=(failed,), checks=rates)


def test_failure_of_a_steady_check_ejects_and_that_of_a_flaky_one_is_tested_again() -> None:
    """P6: a check that flakes in two of five runs proves little of the pull request."""
    assert plan(state("unit"), NOW).eject == (1,)
    doubted = plan(state("e2e"), NOW)
    assert doubted.eject == ()
    assert any(new.content == (1,) for new in doubted.start)


def test_failure_weighs_as_its_least_flaky_check_and_without_checks_as_the_queue() -> None:
    """Where a steady check fails, too, the flaky one is no excuse."""
    chances = {names: weigh(state(*names)).chances[1] for names in ((), ("e2e",), ("unit",), ("e2e", "unit"))}
    assert chances["e2e", "unit"] == chances[("unit",)] > chances[()] > chances[("e2e",)]


def test_member_that_fails_by_a_flaky_check_leaves_after_eight_tests() -> None:
    """P5: every plan ends, however often a check flakes."""
    assert plan(state("e2e", times=8), NOW).eject == (1,)


def test_checks_are_counted_by_what_passes_after_them() -> None:
    """A failure counts as a flake of its checks once the same members pass; passes count for each check."""
    run = TrainRun(1, (1,), ONE, 0.0)
    before = replace(trains(1), runs=(run,))
    failed = replace(run_failed(before, run, 2, ["e2e"]), runs=(run,))
    assert failed.checks == {}
    after = run_passed(failed, run, NOW, {"e2e": 0, "unit": 1})
    two = FLAKES.observed(False).observed(True).observed(True)
    assert after.checks == {"unit": FLAKES.observed(True).observed(False), "e2e": two}


def test_same_content_that_fails_by_other_checks_says_nothing_of_either() -> None:
    """Two checks that fail one after the other are rather trouble of CI: the queue's own rate counts."""
    run = TrainRun(1, (1,), ONE, 0.0)
    failed = run_failed(run_failed(trains(1), run, 1, ["e2e"]), run, 1, ["unit"])
    assert [(each.times, each.checks) for each in failed.failures] == [(2, ())]


def test_rates_are_bounded_and_survive_a_restart() -> None:
    """The memory of a queue with thousands of checks stays small, and keeps the newest."""
    many = trains(1).with_checks({f"check-{number}": 0 for number in range(500)}, passed=True)
    assert list(many.checks) == [f"check-{number}" for number in range(300, 500)]
    kept = from_json(to_json(Memory(many)))
    assert kept.trains.checks == many.checks
