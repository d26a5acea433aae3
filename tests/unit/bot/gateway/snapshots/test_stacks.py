"""Stacks, and the pull requests of a base branch, as a snapshot shows them."""

from datetime import timedelta
from typing import Any

from bot.gateway import Gateway
from queue_engine.domain.facts import StackMember
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.snapshots.graphql_answers import (
    GRAPHQL,
    PULL,
    answer,
    pull,
    refused,
)
from tests.unit.bot.github_double import GitHubDouble, Says


async def test_stack_is_shown_by_graphql_and_by_rest(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Whatever the stack is; null or nothing means that there is none."""
    github.on("POST", GRAPHQL, answer(pull(stack={"baseRefName": "main"})), answer(pull(stack=None)))
    taken = [(await gateway.snapshot(repository, 3, login=None)).pull.stack_base for _ in range(2)]
    base = {"ref": "main", "sha": "b1"}
    shown = {"id": 1, "number": 7, "size": 2, "position": 1, "base": base}
    github.on("GET", PULL, Says(pull_request(stack=shown)), Says(pull_request(stack=None)), Says(pull_request()))
    taken += [(await gateway.pull_request(repository, 3)).stack_base for _ in range(3)]
    assert taken == ["main", None, "main", None, None]


async def test_query_without_stacks_serves_a_schema_without_them(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """Stacks are asked for again after an hour."""
    unknown = refused("", "Field 'stack' doesn't exist on type 'PullRequest'", None, "undefinedField")
    github.on("POST", GRAPHQL, unknown, answer(), answer(), answer(pull(stack={"baseRefName": "main"})))
    taken = [(await gateway.snapshot(repository, 3, login="grace")).pull.stack_base for _ in range(2)]
    clock.instant += timedelta(hours=1)
    taken.append((await gateway.snapshot(repository, 3, login="grace")).pull.stack_base)
    assert taken == [None, None, "main"]
    assert len(github.asked_for("POST", GRAPHQL)) == 4


async def test_pull_requests_of_the_base_branch_are_read_with_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Those of the repository itself: of a fork, GitHub also lists those into what it was forked from."""

    def listed(number: int, of: str) -> dict[str, Any]:
        return {"number": number, "baseRefName": "main", "baseRepository": {"nameWithOwner": of}}

    nodes = [listed(7, "ada/engine"), None, listed(8, "eve/engine")]
    base = {"compare": None, "associatedPullRequests": {"nodes": nodes}}
    github.on("POST", GRAPHQL, answer(pull(baseRef=base), nameWithOwner="ada/engine"))
    assert (await gateway.snapshot(repository, 3, login=None)).below == (StackMember(7, "main"),)


async def test_pull_requests_of_a_branch_are_listed_without_those_of_forks(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A filter that GitHub cannot read lists every pull request."""
    own, other = pull_request(number=7), pull_request(number=8)
    other["head"] = {**other["head"], "ref": "elsewhere"}
    github.on("GET", "/repos/ada/engine/pulls", Says([own, other]))
    found = await gateway.stack_members(repository, own["head"]["ref"])
    assert found == (StackMember(7, own["base"]["ref"]),)
