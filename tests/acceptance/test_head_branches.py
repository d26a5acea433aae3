"""A program within a clone finds the pull request of its branch."""

import aiohttp
import pytest

from tests.acceptance.callers import Caller, caller
from tests.acceptance.pull_request_calls import HOME
from tests.acceptance.world import World


async def test_branch_leads_to_its_pull_request_by_one_request(world: World, mona: Caller) -> None:
    """Open ones alone, unless the caller asks for all; a branch without one has none."""
    pull = world.open("add")
    world.open("other")
    await mona.ask("GET", f"{HOME}/queues")
    before = world.requests()
    found = await mona.ask("GET", f"{HOME}/pulls?head=add")
    assert world.requests() == before + 1
    assert (found.status, found.body["head"]) == (200, "acme:add")
    (one,) = found.body["pulls"]
    assert (one["number"], one["state"], one["head_sha"], one["base_branch"]) == (
        *(pull.number, "open", pull.head_sha, "main"),
    )
    await mona.queue(pull)
    await world.until(lambda: pull.merged)
    assert (await mona.ask("GET", f"{HOME}/pulls?head=add")).body["pulls"] == []
    every = (await mona.ask("GET", f"{HOME}/pulls?head=add&state=all")).body["pulls"]
    assert [(each["number"], each["state"]) for each in every] == [(pull.number, "merged")]
    assert (await mona.ask("GET", f"{HOME}/pulls?head=nowhere")).body["pulls"] == []


@pytest.mark.thorough
async def test_branch_of_a_fork_has_its_owner(world: World, mona: Caller) -> None:
    """Two people may name their branches alike; without an owner it is the repository's own branch."""
    own = world.open("add")
    theirs = world.open("idea", by=None, fork_of="fan")
    for head, numbers in (("add", [own.number]), ("fan:idea", [theirs.number]), ("idea", []), ("fan:add", [])):
        found = (await mona.ask("GET", f"{HOME}/pulls?head={head}")).body
        assert [each["number"] for each in found["pulls"]] == numbers


@pytest.mark.thorough
@pytest.mark.parametrize("query", ["", "?head=", "?head=a%20b", "?head=a:b:c", "?head=a&state=closed", "?head=a&x=1"])
async def test_query_that_names_no_branch_is_refused(world: World, mona: Caller, query: str) -> None:
    """GitHub would ignore it and list every pull request."""
    await mona.ask("GET", f"{HOME}/queues")
    before = world.requests()
    answer = await mona.ask("GET", f"{HOME}/pulls{query}")
    assert answer.status == 400
    assert "query" in answer.body["error"]
    assert world.requests() == before


@pytest.mark.thorough
async def test_search_for_a_branch_is_charged_and_bounded(world: World, session: aiohttp.ClientSession) -> None:
    """A loop over branches may not use up the requests that landing needs."""
    mona = await caller(world, session)
    statuses = [(await mona.ask("GET", f"{HOME}/pulls?head=b{number}")).status for number in range(101)]
    assert set(statuses) == {200, 429}
    assert world.requests("GET /repos/{owner}/{repo}/pulls") <= 100
