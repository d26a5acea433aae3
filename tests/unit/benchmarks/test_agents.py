"""The measure of people beside agents, through the whole bot."""

import pytest

from benchmarks.agents import through_bot
from benchmarks.fair_share import p95, waits
from queue_engine.config.model import Policy


@pytest.mark.long
async def test_agents_find_true_outcomes_and_people_wait_as_in_the_simulation() -> None:
    """Nothing lands or is queued twice, no call waits for what has left, and each outcome is what GitHub shows."""
    by_people = [(60_000, "person-1"), (120_000, "person-2"), (7_000_000, "person-1"), (9_000_000, "person-3")]
    found = await through_bot(by_people, agents=6, each=3)
    assert found.faults == []
    assert found.outcomes.total() >= 18
    assert found.outcomes["landed"] == 17, "a person dequeued the thirteenth"
    assert found.outcomes["failed"] == 2, "the ninth and the eighteenth, at first"
    scale = p95(found.people) / 3
    assert scale == pytest.approx(p95(waits(by_people, agents=6, policy=Policy())) / 10, rel=0.05)
