"""Several pull requests by one query, and what IMQ does where GitHub fails with that."""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta

from bot.gateway import Gateway
from queue_engine.core.concurrency.request_context import JOB_HOLDER, working
from queue_engine.domain.errors import NotFound
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import SnapshotRequest
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
    """P7: with the permission of the person who queued them, read once. GitHub could not answer for more in time."""
    github.on("POST", GRAPHQL, several(*range(1, 12)))
    taken = await gateway.snapshots(repository, requests(*range(1, 12)))
    assert {number: each.permission for number, each in taken.items()} == dict.fromkeys(
        range(1, 11), Permission.MAINTAIN
    )
    queries = [each.data for each in github.asked if each.path == GRAPHQL]
    assert len(queries) == 1
    assert queries[0]["variables"]["head_9"] == "h10"
    assert "head_10" not in queries[0]["variables"]


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


async def by_jobs(gateway: Gateway, repository: Repository, *numbers: int) -> Sequence[Snapshot | BaseException]:
    """What jobs get that each read one of these pull requests at the same time."""

    async def read(number: int) -> Snapshot:
        with working(holder=f"{JOB_HOLDER}{number}"):
            return await gateway.snapshot(repository, number, login="grace", head_sha=f"h{number}")

    return await asyncio.gather(*map(read, numbers), return_exceptions=True)


async def test_reads_of_jobs_at_the_same_time_share_a_query(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: the first goes at once, and all that come meanwhile go together; a pass waits for none of them."""
    github.on("POST", GRAPHQL, answer(pull(number=1), collaborators=GRACE), several(2, 3, 4))
    found = await by_jobs(gateway, repository, 1, 2, 3, 4)
    assert [each.pull.number for each in found if isinstance(each, Snapshot)] == [1, 2, 3, 4]
    assert sum(each.path == GRAPHQL for each in github.asked) == 2


async def test_pull_request_that_is_missing_fails_the_job_that_reads_it_alone(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P5: the jobs that share its query get their answers."""
    error = {"type": "NOT_FOUND", "message": "Could not resolve", "path": ["repository", "pull_1"]}
    shown = several(2, 3).data["data"]["repository"] | {"pull_1": None}
    alone = Says({"data": {"repository": None}, "errors": [error | {"path": ["repository", "pullRequest"]}]})
    first = answer(pull(number=1), collaborators=GRACE)
    github.on("POST", GRAPHQL, first, Says({"data": {"repository": shown}, "errors": [error]}), alone)
    found = await by_jobs(gateway, repository, 1, 2, 3)
    assert [isinstance(each, Snapshot) for each in found] == [True, True, False]
    assert isinstance(found[2], NotFound)
