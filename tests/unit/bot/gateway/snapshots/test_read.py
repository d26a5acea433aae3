"""A pull request with what stands around it: one query, and what is done where GraphQL does not tell."""

from datetime import timedelta
from typing import Any

import aiohttp
import pytest
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http.client import endpoint
from bot.gateway.http.connection import Connection
from queue_engine.domain.errors import Forbidden, GitHubError, NotFound, RateLimitError, Unavailable
from queue_engine.domain.facts import MergeMethod, Permission, ReviewOutcome, ReviewState
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.snapshots.graphql_answers import (
    COMPARED,
    GRAPHQL,
    PERMISSION,
    PULL,
    answer,
    pull,
    refused,
    threads,
)
from tests.unit.bot.github_double import GitHubDouble, Says


async def test_one_query_reads_all(gateway: Gateway, github: GitHubDouble, repository: Repository) -> None:
    """Pull request, permission, comparison, reviews, conversations and merge methods; a bot's login as REST has it."""
    github.on("POST", GRAPHQL, answer())
    taken = await gateway.snapshot(repository, 3, login="grace", head_sha="h1")
    assert (taken.pull.author, taken.pull.methods) == ("renovate[bot]", (MergeMethod.SQUASH,))
    assert (taken.permission, taken.decision, taken.open_conversations) == (
        Permission.MAINTAIN,
        ReviewOutcome.APPROVED,
        (),
    )
    assert taken.comparison is not None
    assert (taken.comparison.base_tip, taken.comparison.head.tree, taken.comparison.head.parents) == (
        "b1",
        "t1",
        ("b1",),
    )
    assert [(one.author, one.state, one.by_writer) for one in taken.reviews or ()] == [
        ("max", ReviewState.APPROVED, True)
    ]
    assert [asked.path for asked in github.asked][1:] == [GRAPHQL]
    github.on("GET", PULL, Says(pull_request()))
    assert (await gateway.pull_request(repository, 3)).methods == (MergeMethod.SQUASH,)


@pytest.mark.parametrize(
    "parts",
    [
        {"baseRef": None},
        {"baseRef": {"compare": None}},
        {"commits": {"nodes": []}},
        {"headRefOid": "h2"},
        {"baseRef": {"compare": {**COMPARED, "headTarget": {"oid": "h0"}}}},
    ],
)
async def test_comparison_that_is_not_of_this_head_is_left_out(
    gateway: Gateway, github: GitHubDouble, repository: Repository, parts: dict[str, Any]
) -> None:
    """P1: the parts of an answer may come from replicas that differ."""
    github.on("POST", GRAPHQL, answer(pull(**parts)))
    assert (await gateway.snapshot(repository, 3, login="grace", head_sha="h1")).comparison is None


async def test_head_behind_its_base_is_read_without_a_merge_base(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """GraphQL names no merge base: such an update is proved by REST."""
    behind = {"aheadBy": 0, "behindBy": 2, "baseTarget": {"oid": "b2"}, "headTarget": {"oid": "h1"}}
    github.on("POST", GRAPHQL, answer(pull(baseRef={"compare": behind})))
    taken = await gateway.snapshot(repository, 3, login=None, head_sha="h1")
    assert (taken.comparison, taken.behind, taken.ahead, taken.base_tip, taken.permission) == (None, 2, 0, "b2", None)


OTHERS = [{"permission": "ADMIN", "node": {"login": login}} for login in ("grace-admin", "mygrace")]


@pytest.mark.parametrize(
    "hidden", [{"collaborators": None}, {"collaborators": {"edges": []}}, {"collaborators": {"edges": OTHERS}}]
)
async def test_permission_that_graphql_hides_is_asked_for_by_itself(
    gateway: Gateway, github: GitHubDouble, repository: Repository, hidden: dict[str, Any]
) -> None:
    """An App may be refused collaborators (refined-github #9817), and neither readers nor bots are among them."""
    github.on("POST", GRAPHQL, answer(**hidden))
    github.on("GET", PERMISSION, Says({"permission": "read", "role_name": "triage"}))
    assert (await gateway.snapshot(repository, 3, login="grace")).permission is Permission.TRIAGE


@pytest.mark.parametrize(
    ("rollup", "head", "failing"),
    [
        ({"state": "FAILURE"}, "h1", True),
        ({"state": "ERROR"}, "h1", True),
        ({"state": "PENDING"}, "h1", False),
        (None, "h1", None),
        ({"state": "FAILURE"}, "h2", None),
    ],
)
async def test_rollup_of_the_head_says_whether_a_check_failed(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    rollup: dict[str, str] | None,
    head: str,
    failing: bool | None,
) -> None:
    """It is null without any check (ejoffe/spr #405), and counts only for the head that the commits end with."""
    commit: dict[str, Any] = {"oid": "h1", "tree": {"oid": "t1"}, "parents": {"nodes": []}, "statusCheckRollup": rollup}
    github.on("POST", GRAPHQL, answer(pull(headRefOid=head, commits={"nodes": [{"commit": commit}]})))
    assert (await gateway.snapshot(repository, 3, login=None)).failing is failing


@pytest.mark.parametrize(
    ("pages", "found", "asked"),
    [([(True,), (False,)], ("T0",), 2), ([(True,), (True,)], (), 2), ([(True, False)], ("T1",), 1)],
)
async def test_conversations_are_read_page_by_page(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    pages: list[tuple[bool, ...]],
    found: tuple[str, ...],
    asked: int,
) -> None:
    """One that is open is enough to know."""
    first = answer(pull(reviewThreads=threads(*pages[0], after="c1")))
    rest = [Says({"data": {"repository": {"pullRequest": {"reviewThreads": threads(*each)}}}}) for each in pages[1:]]
    github.on("POST", GRAPHQL, first, *rest)
    assert (await gateway.snapshot(repository, 3, login=None)).open_conversations == found
    assert len(github.asked_for("POST", GRAPHQL)) == asked


async def test_conversations_without_end_are_unknown(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """P7: the number of pages has a bound; beyond it GitHub itself refuses the merge."""
    more = Says({"data": {"repository": {"pullRequest": {"reviewThreads": threads(True, after="c")}}}})
    github.on("POST", GRAPHQL, answer(pull(reviewThreads=threads(True, after="c"))), more)
    assert (await gateway.snapshot(repository, 3, login=None)).open_conversations is None
    assert len(github.asked_for("POST", GRAPHQL)) == 11


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (refused("NOT_FOUND", "Could not resolve to a PullRequest", ["repository", "pullRequest"]), NotFound),
        (refused("FORBIDDEN", "Resource not accessible by integration", ["repository", "pullRequest"]), Forbidden),
        (Says({"errors": [{"message": "Something went wrong while executing your query."}]}), Unavailable),
        (Says({"data": None}), Unavailable),
    ],
)
async def test_refusals_of_status_200_are_the_errors_that_they_mean(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, error: type[GitHubError]
) -> None:
    """GraphQL answers 200 with `errors` (github/docs #22607)."""
    github.on("POST", GRAPHQL, says)
    with pytest.raises(error):
        await gateway.snapshot(repository, 3, login=None)


@pytest.mark.parametrize("kind", ["RATE_LIMIT", "RATE_LIMITED"])
async def test_limit_of_graphql_holds_rest_back_only_if_it_is_a_secondary_one(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock, kind: str
) -> None:
    """P7: the primary limits are counted apart, the secondary ones together."""
    reset = int((clock.now() + timedelta(minutes=20)).timestamp())
    limited = {"errors": [{"type": kind, "message": "API rate limit already exceeded for installation ID 9."}]}
    spent = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "0", "x-ratelimit-reset": str(reset)}
    github.on("GET", PULL, Says(pull_request()))
    github.on("POST", GRAPHQL, Says(limited, headers=spent))
    with pytest.raises(RateLimitError) as held:
        await gateway.snapshot(repository, 3, login=None)
    assert held.value.retry_after == timedelta(minutes=20)
    await gateway.pull_request(repository, 3)
    clock.instant += timedelta(minutes=21)
    github.on("POST", GRAPHQL, Says({"message": "You have exceeded a secondary rate limit."}, 403))
    with pytest.raises(RateLimitError):
        await gateway.snapshot(repository, 3, login=None)
    with pytest.raises(RateLimitError):
        await gateway.pull_request(repository, 3)


@pytest.mark.parametrize(
    "says", [Says(status=404, data={"message": "Not Found"}), refused("", "No", None, "undefinedField")]
)
async def test_github_without_what_the_query_asks_for_is_an_outage_that_names_it(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says
) -> None:
    """P5: an Enterprise Server older than 3.16 holds its queues, and no pull request leaves for it."""
    github.on("POST", GRAPHQL, says)
    with pytest.raises(Unavailable, match="GraphQL API does not answer IMQ's queries: No"):
        await gateway.snapshot(repository, 3, login="grace", head_sha="h1")


@pytest.mark.parametrize(
    ("api", "graphql"),
    [
        ("https://api.github.com", "https://api.github.com/graphql"),
        ("https://github.example.com/api/v3/", "https://github.example.com/api/graphql"),
        ("http://127.0.0.1:8000", "http://127.0.0.1:8000/graphql"),
    ],
)
def test_graphql_is_where_each_kind_of_github_has_it(api: str, graphql: str) -> None:
    """Enterprise Server has no version in its address."""
    assert endpoint(api) == graphql


async def test_query_goes_to_the_enterprise_servers_address(
    session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock, repository: Repository
) -> None:
    """Beside `/api/v3`, with the same token."""
    gateway = Gateway(
        Connection(session, api_url=github.url + "/api/v3", app_id="1", private_key=SecretStr(pem), clock=clock)
    )
    github.on("POST", "/api/graphql", answer())
    tokens = Says({"token": "ghs_1", "expires_at": "2026-01-02T04:04:05Z"}, 201)
    github.on("POST", "/api/v3/app/installations/9/access_tokens", tokens)
    assert (await gateway.snapshot(repository, 3, login=None)).pull.number == 3


async def test_merge_methods_of_a_snapshot_are_believed_for_two_hours(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """A maintainer may allow another method meanwhile, and not every App gets a webhook about it."""
    github.on("POST", GRAPHQL, answer())
    github.on("GET", PULL, Says(pull_request()))
    await gateway.snapshot(repository, 3, login=None)
    clock.instant += timedelta(hours=2) - timedelta(seconds=1)
    assert (await gateway.pull_request(repository, 3)).methods == (MergeMethod.SQUASH,)
    clock.instant += timedelta(seconds=1)
    assert (await gateway.pull_request(repository, 3)).methods != (MergeMethod.SQUASH,)


@pytest.mark.parametrize("word", [None, "INVENTED_NEXT_YEAR"])
async def test_decision_that_github_does_not_make_or_imq_does_not_know_decides_nothing(
    gateway: Gateway, github: GitHubDouble, repository: Repository, word: str | None
) -> None:
    """P4: the reviews are counted instead."""
    github.on("POST", GRAPHQL, answer(pull(reviewDecision=word)))
    assert (await gateway.snapshot(repository, 3, login=None)).decision is None
