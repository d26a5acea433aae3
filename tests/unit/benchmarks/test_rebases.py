"""The measure of a dependency bot runs: tiny figures through the very parts that `make bench` uses."""

import pytest

from benchmarks.rebases import landed_all


@pytest.mark.thorough
async def test_rebases_of_a_bot_are_part_of_what_is_measured() -> None:
    """All land, and the bot rebased what still waited."""
    cost = await landed_all(3, 5, rebasing=True)
    assert cost.landed == 3
    assert cost.rebases >= 1
    assert cost.requests <= 15 * 3
