"""Rates follow what happened, and slowly forget."""

import pytest

from queue_engine.planner.trains.model import LEAST_FLAKES, Estimates, Member, Rate


def test_first_values_count_as_observations() -> None:
    """One failure among ten imagined pull requests moves the rate by a tenth of the way."""
    assert Rate(0.1, 10).observed(True).share == pytest.approx(2 / 11)


def test_rate_follows_a_team_that_changes() -> None:
    """After a thousand good ones, two hundred bad ones make most of the rate."""
    rate = Rate(0.1, 10)
    for _ in range(1000):
        rate = rate.observed(False)
    for _ in range(400):
        rate = rate.observed(True)
    assert rate.share > 0.5


def test_queue_without_flakes_expects_one_now_and_then() -> None:
    """A rate of nothing would make the first flake a proof of guilt."""
    estimates = Estimates(flakes=Rate(0.0, 400))
    assert estimates.flake_chance == LEAST_FLAKES


def test_qualified_members_and_those_of_agents_are_counted_apart() -> None:
    """That one failed which had passed before says nothing of fresh ones, nor one of an agent of those of people."""
    before, member = Estimates(), Member(1, 0.0)
    of_agent, passed = Member(2, 0.0, yields_until=9.0), Member(3, 0.0, qualified_at=1.0)
    after = before.settled(passed, True, failed=True)
    assert after.chance(member) == before.chance(member)
    assert after.chance(passed) > before.chance(passed)
    after = before.settled(of_agent, False, failed=True)
    assert after.chance(member) == before.chance(member)
    assert after.chance(of_agent) > before.chance(of_agent) == before.chance(member)


def test_failures_in_a_row_are_likelier_than_the_power_of_an_uncertain_rate() -> None:
    """P6: in a young queue the first failures say as much of CI as of the pull request; it is not ejected for them."""
    young, old = Estimates(flakes=Rate(0.1, 20)), Estimates(flakes=Rate(0.1, 1e9))
    assert young.flakes.in_a_row(1) == pytest.approx(0.1)
    assert young.flakes.in_a_row(3) == pytest.approx(2 / 20 * 3 / 21 * 4 / 22)
    assert old.flakes.in_a_row(3) == pytest.approx(0.001)
