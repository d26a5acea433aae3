"""Changes whose diff GitHub cannot make: they are compared by their commits, and land like others."""

from datetime import timedelta

import pytest

from github_emulator import Fault
from tests.acceptance.world import CI_TIME, LABEL, World

COMPARE = "/repos/{owner}/{repo}/compare/{basehead}"


@pytest.mark.parametrize("status", [422, 503])
async def test_pull_request_whose_diff_takes_too_long_is_updated_and_lands(world: World, status: int) -> None:
    """P1, P5: `compare` never answers; commits and parents show behind, proved and up to date."""
    body = {"message": "Sorry, this diff is taking too long to generate."}
    # GraphQL compares branches alone here, so that REST is asked.
    world.github.behaviour.comparison_of_commits = False
    world.server.faults.add(Fault(kind="fail", method="GET", route=COMPARE, status=status, body=body, times=None))
    pull = await world.behind("large")
    pull.label(LABEL, by="mona")
    await world.until(lambda: pull.merged, within=CI_TIME + timedelta(minutes=1))
    await world.settle()
    assert world.repository.tree("main") == world.repository.tree(pull.head_sha)
    assert await world.reasons(pull) == []
    assert world.requests(f"GET {COMPARE}") == 2
    assert world.requests("GET /repos/{owner}/{repo}/commits") == 4
