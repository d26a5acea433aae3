"""What failed runs say of their members, against Bayes' rule over all combinations of bad ones."""

from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.planner.trains.model import Estimates, FailingRun, Rate, Trains
from queue_engine.planner.trains.suspicion import weigh
from tests.unit.queue_engine.planner.trains.examples import trains


def suspicions(state: Trains) -> Mapping[int, float]:
    """Return the chance of each member to make a run fail."""
    return weigh(state).chances


groups = st.sets(st.integers(1, 8), min_size=1, max_size=8).map(frozenset)


def failed(*suspects: frozenset[int]) -> tuple[FailingRun, ...]:
    """Return a failed run for each set of suspects."""
    return tuple(FailingRun(each, each) for each in suspects)


def by_brute_force(state: Trains) -> dict[int, float]:
    """Weigh every combination of bad members by how well it explains the failed runs."""
    members = [each.id for each in state.queue]
    prior, flakes = state.estimates.fails.share, state.estimates.flake_chance
    weights: dict[frozenset[int], float] = {}
    for kinds in product((True, False), repeat=len(members)):
        bad = frozenset(member for member, is_bad in zip(members, kinds, strict=True) if is_bad)
        chance = prod(prior if is_bad else 1 - prior for is_bad in kinds)
        weights[bad] = chance * prod(1.0 if bad & each.suspects else flakes for each in state.failures)
    total = sum(weights.values())
    return {member: sum(each for bad, each in weights.items() if member in bad) / total for member in members}


def with_failures(*suspects: frozenset[int], fails: float = 0.1, flakes: float = 0.01) -> Trains:
    """Return eight members of whom these groups failed."""
    state = trains(8)
    return Trains(
        1, state.usual_seconds, state.queue, (), (), failed(*suspects), Estimates(Rate(fails, 10), Rate(flakes, 50))
    )


@given(groups, st.floats(0.01, 0.5), st.floats(0.002, 0.2))
def test_one_failed_run_is_exact(group: frozenset[int], fails: float, flakes: float) -> None:
    """Its suspects have their chances by Bayes' rule, all others the rate of the queue."""
    state = with_failures(group, fails=fails, flakes=flakes)
    assert suspicions(state) == pytest.approx(by_brute_force(state), rel=1e-6)


@given(groups, groups)
def test_failed_runs_without_a_common_member_are_exact(first: frozenset[int], second: frozenset[int]) -> None:
    """What one of them says changes nothing about the members of the other."""
    if second := second - first:
        state = with_failures(first, second)
        assert suspicions(state) == pytest.approx(by_brute_force(state), rel=1e-6)


@given(st.lists(groups, max_size=4))
def test_overlapping_failed_runs_come_near(several: list[frozenset[int]]) -> None:
    """No chance leaves its bounds, and members of no failed run keep the rate of the queue."""
    state = with_failures(*several)
    found = suspicions(state)
    suspected = frozenset[int]().union(*several)
    assert all(0 < each < 1 for each in found.values())
    assert all(found[member] == pytest.approx(0.1) for member in found if member not in suspected)
    assert all(found[member] >= 0.1 - 1e-9 for member in suspected)


def test_narrower_failed_run_has_the_last_word() -> None:
    """Of eight that failed, two failed again: the two are suspected most, and by about as much as due."""
    state = with_failures(frozenset(range(1, 9)), frozenset({1, 2}))
    found, exact = suspicions(state), by_brute_force(state)
    assert found[1] == pytest.approx(exact[1], abs=0.05)
    assert found[1] > 2 * found[3]


def test_member_that_fails_alone_again_is_as_good_as_proved() -> None:
    """One failure may be a flake; the same tree failing twice hardly is."""
    once = with_failures(frozenset({1}))
    twice = replace(once, failures=(replace(once.failures[0], times=2),))
    assert 0.9 < suspicions(once)[1] < 0.98 < suspicions(twice)[1]
