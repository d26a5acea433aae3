"""P1 and P4 on a GitHub whose reads lag, each kind by as much as it likes, while people, faults and deaths go on.

Each seed is one course of events. `IMQ_LAG_SEEDS` ("100-200") runs others, `IMQ_LAG_ACTS` longer ones: `make campaign`.
"""

import os
from datetime import timedelta
from pathlib import Path
from random import Random

import pytest

from tests.acceptance.crowd import Crowd
from tests.acceptance.witness import Witness
from tests.acceptance.world import CI_TIME, a_world

_FIRST, _, _LAST = os.environ.get("IMQ_LAG_SEEDS", "1").partition("-")
SEEDS = range(int(_FIRST), int(_LAST or _FIRST) + 1)
PULLS = 5
ACTS = int(os.environ.get("IMQ_LAG_ACTS", "8"))


@pytest.mark.parametrize("seed", SEEDS)
async def test_all_that_is_green_and_agreed_lands_and_nothing_else_however_reads_lag(tmp_path: Path, seed: int) -> None:
    """P1, P4, P5: reads show any state of the last five seconds, and people act meanwhile."""
    async with a_world(tmp_path, seed=seed) as world:
        crowd = Crowd(world, Random(seed), Witness(world.github))
        crowd.open(PULLS)
        await world.pass_time(CI_TIME)
        crowd.lag_at_random()
        for _ in range(ACTS):
            await crowd.act()
        await crowd.finish()
        await world.pass_time(CI_TIME * PULLS * 2 + timedelta(minutes=20))
        assert not crowd.witness.complaints, crowd.witness.report
        assert [pull.number for pull in crowd.pulls if not pull.merged and crowd.green_on_base(pull)] == []
