"""The measure of fair share through the whole bot."""

from datetime import timedelta

import pytest

from benchmarks.fair_share import waits
from benchmarks.fair_share_bot import waits_through_bot
from queue_engine.config.model import Policy


@pytest.mark.long
async def test_waits_beside_agents_are_those_of_the_simulation() -> None:
    """Two people queue at once beside two agents: the bot lands all in the order that the simulation has."""
    by_people = [(60_000, "person-1"), (120_000, "person-2")]
    through_bot = await waits_through_bot(by_people, agents=2)
    simulated = waits(by_people, agents=2, policy=Policy())
    for mine, wanted in zip(sorted(through_bot), sorted(simulated), strict=True):
        assert abs(mine - wanted) < timedelta(minutes=2)
