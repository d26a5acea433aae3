"""Every queue ends: members that are red alone, in pairs and in triples, simulated by the plans that the bot runs.

`IMQ_SCENARIOS` simulates more scenarios: `make long` a few thousand.
"""

import os
from dataclasses import replace

import pytest

from benchmarks.scheduling.scenarios import (
    MOST_MEMBERS,
    Scenario,
    one_by_one,
    red_scenario,
    runs_per_landing,
    scenario_of,
    simulate,
    simulate_all,
)

SCENARIOS = int(os.environ.get("IMQ_SCENARIOS", "300"))
ONCE_UNENDING = (13, 15, 50, 61, 63, 65, 88, 121, 153, 166, 168, 378, 1292, 1365)
"""Scenarios in which plans repeated themselves: they cut a failed run to what had failed, or tested what had passed."""
MOST_RUNS = 5
"""Runs for each member: 4.3 were the most in 30,000 scenarios."""


@pytest.mark.parametrize("slots", [None, 1])
def test_every_scenario_ends_and_every_green_member_lands(slots: int | None) -> None:
    """P5: within a bounded number of runs each member lands, or leaves with a failed run that explains it."""
    summary = simulate_all(range(SCENARIOS if slots is None else SCENARIOS // 3), slots)
    assert (summary.unending, summary.red, summary.unresolved, summary.wrong) == ((), 0, 0, 0)
    assert summary.most_runs <= MOST_RUNS


def test_scenarios_that_never_ended_end() -> None:
    """P5: plans that repeat themselves spend GitHub's limits, and the green members behind them never land."""
    summary = simulate_all(ONCE_UNENDING)
    assert (summary.unending, summary.red, summary.unresolved, summary.wrong) == ((), 0, 0, 0)


def test_scenarios_have_all_kinds_of_red_members() -> None:
    """Up to 24 members and four slots; red alone, in pairs and in triples, with flakes and without."""
    scenarios = [scenario_of(seed) for seed in range(300)]
    assert {len(red) for each in scenarios for red in each.red} == {1, 2, 3}
    assert {each.slots for each in scenarios} == {1, 2, 3, 4}
    assert max(each.members for each in scenarios) == MOST_MEMBERS
    assert {each.flakes for each in scenarios} == {0.0, 0.02, 0.1, 0.27}


def test_twelve_with_a_red_one_and_a_red_pair_cost_no_more_than_one_by_one() -> None:
    """One by one they cost eleven runs: twelve members, of whom the first is up to date."""
    for seed in range(0, 200, 4):
        single, pair = red_scenario(12, 1, 1 / 12, seed), red_scenario(12, 1, 1 / 12, seed + 1, pairs=True)
        ending = simulate(replace(single, red=(*single.red, *pair.red)))
        assert ending.runs <= 11, seed
        assert not ending.wrong, seed


@pytest.mark.parametrize("share", [0.02, 0.1, 0.2, 0.5])
@pytest.mark.parametrize("pairs", [False, True])
def test_one_run_at_once_costs_fewer_runs_than_one_by_one_whatever_the_share(share: float, pairs: bool) -> None:
    """Where many fail, the plan tests one after the other by itself."""
    trains, others = runs_per_landing(40, 1, share, range(3), pairs=pairs)
    assert trains < others


@pytest.mark.parametrize(("slots", "share"), [(2, 0.2), (4, 0.1), (4, 0.2), (8, 0.2)])
def test_several_runs_at_once_cost_no_more_than_one_by_one_where_pairs_are_red(slots: int, share: float) -> None:
    """P5: groups that passed side by side fail together, so the plan falls back to fewer runs at once by itself."""
    trains, others = runs_per_landing(40, slots, share, range(12), pairs=True)
    assert trains <= others


def test_four_runs_at_once_become_fewer_where_half_of_the_members_fail() -> None:
    """Groups side by side would only be tested again."""
    trains, others = runs_per_landing(40, 4, 0.5, range(6), pairs=False)
    assert trains < others


def test_members_are_tested_one_after_the_other_where_half_of_them_fail() -> None:
    """Once the queue has learnt that, a run of several members would cost more than it saves."""
    ending = simulate(red_scenario(60, 1, 0.5, 7))
    assert ending.runs <= one_by_one(red_scenario(60, 1, 0.5, 7)).runs


def test_flaky_ci_ends_too() -> None:
    """A member whose own tree fails again and again leaves, although most runs flake."""
    ending = simulate(Scenario(6, 2, (frozenset({3}),), flakes=0.6, seed=1))
    assert sorted([*ending.landed, *ending.ejected]) == [1, 2, 3, 4, 5, 6]


def test_queue_in_which_all_are_red_ends() -> None:
    """Each member leaves after a few runs of its own."""
    ending = simulate(Scenario(4, 2, tuple(frozenset({member}) for member in range(1, 5))))
    assert ending.landed == []
    assert ending.runs <= 4 * MOST_RUNS
