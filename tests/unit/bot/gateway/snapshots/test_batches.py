"""Several pull requests by one query, and what IMQ does where GitHub fails with that."""

from dataclasses import replace
from datetime import timedelta

from bot.gateway import Gateway
from queue_engine.domain.candidate_port import SnapshotRequest
from queue_engine.domain.facts import Permission
from queue_engine.domain.model import Repository
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.snapshots.graphql_answers import GRAPHQL, PERMISSION, answer, pull, refused
from tests.unit.bot.github_double import GitHubDouble, Says

GRACE = {"edges": [{"permission": "MAINTAIN", "node": {"login": "grace"}}]}
HIDDEN: dict[str, list[object]] = {"edges": []}


def requests(*numbers: int) -> list[SnapshotRequest]:
    return [SnapshotRequest(number, "grace", f"h{number}") for number in numbers]


def several(*numbers: int, people: object = GRACE) -> Says:
    """GitHub's answer with these pull requests."""
    pulls = {f"pull_{index}": pull(number=number) for index, number in enumerate(numbers)}
    return answer(None, pullRequest=None, collaborators=None, collaborators_0=people, **pulls)


async def test_one_query_reads_ten_pull_requests(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: with the permission of the person who queued them, read once."""
    github.on("POST", GRAPHQL, several(*range(1, 11)))
    taken = await gateway.snapshots(repository, requests(*range(1, 11)))
    assert {number: each.permission for number, each in taken.items()} == dict.fromkeys(
        range(1, 11), Permission.MAINTAIN
    )
    queries = [each.data for each in github.asked if each.path == GRAPHQL]
    assert len(queries) == 1
    assert queries[0]["variables"]["head_9"] == "h10"


async def test_permission_that_graphql_hides_is_read_once_for_all(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: a bot that queued ten pull requests costs one request more, not ten."""
    github.on("POST", GRAPHQL, several(1, 2, 3, people=HIDDEN))
    github.on("GET", PERMISSION, Says({"permission": "write"}))
    taken = await gateway.snapshots(repository, requests(1, 2, 3))
    assert {each.permission for each in taken.values()} == {Permission.WRITE}
    assert sum(each.path == PERMISSION for each in github.asked) == 1


async def test_pull_request_that_github_does_not_show_is_missing(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P5: the others are shown all the same."""
    shown = several(1, 2).data["data"]["repository"]
    error = {"type": "NOT_FOUND", "message": "Could not resolve", "path": ["repository", "pull_1"]}
    github.on("POST", GRAPHQL, Says({"data": {"repository": shown | {"pull_1": None}}, "errors": [error]}))
    assert set(await gateway.snapshots(repository, requests(1, 2))) == {1}


async def test_query_that_github_cannot_answer_is_not_sent_again_for_minutes(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """P7: IMQ reads each by itself then, as the caller does for each that is missing."""
    github.on("POST", GRAPHQL, refused("", "Something went wrong while executing your query"))
    assert await gateway.snapshots(repository, requests(1, 2)) == {}
    github.on("POST", GRAPHQL, several(1, 2))
    clock.instant += timedelta(minutes=5) - timedelta(seconds=1)
    assert await gateway.snapshots(repository, requests(1, 2)) == {}
    neighbour = replace(repository, id=repository.id + 1)
    assert set(await gateway.snapshots(neighbour, requests(1, 2))) == {1, 2}, "P5: another repository"
    clock.instant += timedelta(seconds=1)
    assert set(await gateway.snapshots(repository, requests(1, 2))) == {1, 2}
