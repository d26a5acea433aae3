"""The simulation of trains: known laws hold in it, and no policy lands what it did not test."""

from pathlib import Path

import pytest
from click.testing import CliRunner

from benchmarks.scheduling import __main__ as command
from benchmarks.scheduling.cells import Cell, DrawnTruth
from benchmarks.scheduling.goals import Goal, goals, samples
from benchmarks.scheduling.grid import cells, measure, saturated
from benchmarks.scheduling.policies import ORACLE, OURS, POLICIES
from benchmarks.scheduling.report import costs_table, goals_table, losses_table, policies_table, runs_table
from bot.cli.replay.replays import REFERENCE
from bot.cli.replay.simulation import Simulation

BUSY = Cell(10, 30, 0.1, 0.02, 4)


def test_policy_resolves_all_and_lands_only_what_passed() -> None:
    """The simulation refuses runs beyond the slots, and landings of a tree that no run tested."""
    for policy in POLICIES:
        outcome = measure(policy, BUSY, 3, 120).outcome
        assert (outcome.red, outcome.unresolved) == (0, 0), policy
        assert len(outcome.order) > 90, policy


@pytest.mark.parametrize("slots", [1, 4, 16])
def test_chain_lands_as_many_at_once_as_its_formula_says(slots: int) -> None:
    """(1-p)(1-(1-p)^c)/p pull requests land in the time of one run, however many wait."""
    cell = Cell(10, 30, 0.1, 0.0, slots, sigma=0.001)
    truth = DrawnTruth(cell, 5)
    outcome = Simulation(truth, POLICIES[REFERENCE](truth), 3000, at_once=True).run()
    bad = len(truth.bad) / 3000
    expected = (1 - bad) * (1 - (1 - bad) ** slots) / bad
    assert len(outcome.order) * cell.minutes / outcome.span == pytest.approx(expected, rel=0.06)


@pytest.mark.thorough
@pytest.mark.parametrize(("bad", "runs"), [(0.02, 0.142), (0.05, 0.288), (0.1, 0.473), (0.25, 0.821)])
def test_one_slot_needs_hardly_more_runs_than_prefix_search(bad: float, runs: float) -> None:
    """Prefix search knows the rate of failures; our estimate begins at one in ten, and may retest."""
    assert saturated(OURS, 1, 7, 500, bad) > 0.88 * Cell(10, 30, bad, 0, 1).entropy / runs


def test_truth_is_the_same_for_all_policies() -> None:
    """Whether a pull request is bad does not depend on what a policy does."""
    ours, theirs = DrawnTruth(BUSY, 3), DrawnTruth(BUSY, 3)
    Simulation(ours, POLICIES[OURS](ours), 100).run()
    Simulation(theirs, POLICIES[REFERENCE](theirs), 100).run()
    assert ours.bad == theirs.bad


def test_bursts_have_the_variance_that_the_cell_names() -> None:
    """Arrivals an hour vary four times as much as their mean."""
    times = DrawnTruth(Cell(10, 30, 0.1, 0, 4, burst=4.0), 1).arrivals(40_000)
    hours = [0] * (int(times[-1] / 60) + 1)
    for time in times:
        hours[int(time / 60)] += 1
    mean = sum(hours) / len(hours)
    assert mean == pytest.approx(10, rel=0.1)
    assert sum((each - mean) ** 2 for each in hours) / len(hours) / mean == pytest.approx(4, rel=0.2)


def test_conflicts_are_as_frequent_as_at_uber() -> None:
    """Four in ten changes conflict with one of the sixteen around them."""
    truth = DrawnTruth(Cell(40, 30, 0.0, 0, 16, 0.034), 1)
    for pull in range(4000):
        truth.arrive(pull, range(pull))
    assert len(truth.conflicts) / 4000 == pytest.approx(0.42, abs=0.03)


def test_report_has_every_goal_policy_and_losing_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is missed stands there as well."""
    monkeypatch.setattr("benchmarks.scheduling.goals._QUEUES", 1)
    found = samples(list(cells(full=False))[:2], (3,), 60)
    reached = goals(found, (3,), 60, 20)
    assert goals_table(reached, reached).count("\n") == len(reached) + 1
    assert policies_table([(ORACLE, measure(ORACLE, BUSY, 3, 60))]).count(ORACLE) == 1
    assert losses_table(found).startswith("| cell |")


def test_each_run_has_one_outcome_in_the_table() -> None:
    """The sum is what the other tables have as runs per landing; the oracle tests nothing bad."""
    ours, oracle = (measure(each, BUSY, 3, 120).runs_per_landing for each in (OURS, ORACLE))
    rows = [line.strip("| ").split(" | ") for line in runs_table(BUSY, (3,), 120).splitlines()[2:]]
    assert rows[-1] == ["all", f"{ours:.2f}", f"{oracle:.2f}"]
    assert sum(float(row[1]) for row in rows[:-1]) == pytest.approx(ours, abs=0.03)
    found = {row[0]: row for row in rows}
    assert found["failed: a bad one alone"][2] == found["failed: a bad one among others"][2] == "0.00"
    assert float(found["failed: a bad one among others"][1]) > 0.1
    assert float(found["passed, and landed"][2]) > 0.5


def test_command_writes_what_it_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Into the document, below what people wrote; the exit code names a miss that the bound leaves room for."""
    document, start = tmp_path / "scheduling.md", command._START
    document.write_text(f"By people.\n\n{start}\n\nOf the last time.\n")
    monkeypatch.setattr("benchmarks.scheduling.goals._QUEUES", 1)
    tiny = {"cells": lambda full: list(cells(full))[:2], "FRESH_SEEDS": (3,), "TUNING_SEEDS": (5,), "_OF_RUNS": (3,)}
    costs = {"costs_table": lambda _, slots, shares, __: costs_table(4, slots[:1], shares[:2], range(2))}
    for name, value in {**tiny, **costs, "_DOCUMENT": document}.items():
        monkeypatch.setattr(command, name, value)
    result = CliRunner().invoke(command.main, ["--pulls", "20", "--scenarios", "20"])
    text = document.read_text()
    assert result.exit_code == ("MISSED, bound" in result.stdout)
    assert result.stderr.count(", bound") == result.stdout.count(", bound")
    assert text.startswith(f"By people.\n\n{start}\n\n2 feasible cells of the grid, 20 pull requests each.")
    assert text.rstrip().endswith(result.stdout.rstrip())
    assert "Of the last time" not in text


def test_full_grid_has_every_feasible_cell() -> None:
    """None is left out because it would look bad."""
    full, default = list(cells(full=True)), list(cells(full=False))
    assert set(default) < set(full)
    assert all(each.feasible for each in full)
    assert {each.conflicts for each in full} == {0.0, 0.01, 0.034}


def test_conflicts_count_as_rejections_in_the_bound_of_information() -> None:
    """At Uber's rate a quarter is rejected, and runs of half an hour need more than sixteen slots."""
    slow, fast = Cell(40, 30, 0.1, 0.02, 16, 0.034), Cell(40, 10, 0.1, 0.02, 16, 0.034)
    assert slow.rejected == pytest.approx(0.265, abs=0.01)
    assert slow.load > 1
    assert not slow.feasible
    assert fast.feasible
    assert Cell(10, 30, 0.1, 0.02, 4).rejected == pytest.approx(0.1)


@pytest.mark.parametrize(
    ("value", "bound", "verdict", "possible"),
    [(1.3, 1.0, "MISSED, bound 1.00", True), (1.3, 1.25, "out of reach, bound 1.25", False), (1.1, 1.0, "must", True)],
)
def test_missed_goal_stands_beside_the_bound_of_information(
    value: float, bound: float, verdict: str, possible: bool
) -> None:
    """A miss that the bound leaves room for is a fault of the planner; no policy avoids another."""
    goal = Goal("runs per landing", value, 1.2, 0.9, bound, at_most=True)
    assert (goal.verdict, goal.possible) == (verdict, possible)
