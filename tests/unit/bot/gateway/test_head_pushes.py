"""P4: when a head branch was pushed to, by GitHub's activity list."""

from datetime import UTC, datetime
from typing import Any

import pytest

from bot.gateway import Gateway
from queue_engine.domain.errors import Unavailable
from queue_engine.domain.facts import HeadPush, PullRequest
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.github_double import LACKING, GitHubDouble, Says

AT = datetime(2026, 1, 5, 9, tzinfo=UTC)


def _move(ref: str, actor: str | None = "ada") -> dict[str, Any]:
    shown = {"ref": ref, "before": "h0", "after": "h1", "timestamp": "2026-01-05T10:00:00+01:00"}
    return {**shown, "activity_type": "push", "actor": {"login": actor} if actor else None}


async def _pull(gateway: Gateway, github: GitHubDouble, repository: Repository, **head: Any) -> PullRequest:
    answer = pull_request()
    answer["head"] |= head
    github.on("GET", "/repos/ada/engine/pulls/3", Says(answer))
    return await gateway.pull_request(repository, 3)


async def test_pushes_are_those_to_the_head_branch_and_no_other(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """The request names the full ref and a year; pushes to other branches do not count."""
    pull = await _pull(gateway, github, repository, ref="fix/#1&x")
    path = f"/repos/{pull.head_repository}/activity"
    github.on("GET", path, Says([_move("refs/heads/fix/#1&x"), _move("refs/heads/fix", None)]))
    assert await gateway.head_pushes(repository, pull) == (HeadPush("h0", "h1", AT, "ada"),)
    query = {"ref": "refs/heads/fix/#1&x", "time_period": "year", "direction": "desc", "per_page": "100"}
    assert github.asked_for("GET", path)[0].query == query


@pytest.mark.parametrize("status", [403, 404])
async def test_pushes_that_github_does_not_list_are_none(
    gateway: Gateway, github: GitHubDouble, repository: Repository, status: int
) -> None:
    """A private fork, or an older Enterprise Server: what is not proved is not believed."""
    pull = await _pull(gateway, github, repository)
    github.on("GET", f"/repos/{pull.head_repository}/activity", Says({"message": "No"}, status, LACKING))
    assert await gateway.head_pushes(repository, pull) == ()


async def test_pushes_to_a_deleted_fork_are_not_asked_for(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A deleted fork has no repository to ask."""
    pull = await _pull(gateway, github, repository, repo=None)
    assert await gateway.head_pushes(repository, pull) == ()


async def test_pushes_listed_in_another_form_are_unavailable(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """An answer that IMQ cannot read must not look like a branch without pushes."""
    pull = await _pull(gateway, github, repository)
    github.on("GET", f"/repos/{pull.head_repository}/activity", Says([{"ref": "refs/heads/fix", "after": 1}]))
    with pytest.raises(Unavailable):
        await gateway.head_pushes(repository, pull)
