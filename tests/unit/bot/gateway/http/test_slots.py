"""Calls of an installation: a few at once, each sent once, and each measured."""

import asyncio
from datetime import timedelta

import pytest

from bot.gateway import Gateway
from bot.gateway.http import connection
from queue_engine.core.concurrency.request_context import working
from queue_engine.domain.errors import (
    Busy,
    Forbidden,
    GitHubError,
    GitHubOutage,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    RateLimitError,
    ReadLagError,
    Refused,
    Unavailable,
    is_retryable,
)
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.http.pacing_examples import MERGE, PULL, SECOND, Figures, budget, limited, soon
from tests.unit.bot.github_double import GitHubDouble, Says
from tests.unit.queue_engine.retryable_errors import PASSES


async def test_calls_of_an_installation_are_a_few_at_once_and_the_others_wait_in_order(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """The limit is well below the hundred at which GitHub refuses; every waiting call is sent."""
    github.on("GET", PULL, Says(pull_request(), hang=True))
    calls = [asyncio.create_task(gateway.pull_request(repository, 3)) for _ in range(20)]
    await soon(lambda: gateway.slots_status().rt_queue == 12 and len(github.asked_for("GET", PULL)) == 8)
    status = gateway.slots_status()
    assert (status.available_slots, status.total_slots, status.accepting) == (8, 16, True), "the App's own are free"
    github.let_go()
    assert len(await asyncio.gather(*calls)) == 20
    assert gateway.slots_status().available_slots == 16


async def test_gateway_that_was_never_called_has_free_slots(gateway: Gateway) -> None:
    """Right after the start nothing is full."""
    status = gateway.slots_status()
    assert (status.total_slots, status.available_slots, status.accepting) == (8, 8, True)


async def test_call_that_finds_the_line_full_is_sent_back_to_come_later(
    gateway: Gateway,
    github: GitHubDouble,
    repository: Repository,
    monkeypatch: pytest.MonkeyPatch,
    figures: Figures,
) -> None:
    """Nothing piles up without bound; the port's error says when to come back."""
    monkeypatch.setattr(connection, "_MAX_WAITING", 1)
    github.on("GET", PULL, Says(pull_request(), hang=True))
    calls = [asyncio.create_task(gateway.pull_request(repository, 3)) for _ in range(9)]
    await soon(lambda: gateway.slots_status().rt_queue == 1)
    with pytest.raises(Busy) as busy:
        await gateway.pull_request(repository, 3)
    assert busy.value.retry_after == 30 * SECOND
    assert {name: count for name, count in figures.counts.items() if name[0] == "github_limited"} == {
        ("github_limited", "slots"): 1
    }
    assert not gateway.slots_status().accepting, "the App's own line, which is free, says nothing of this"
    github.let_go()
    await asyncio.gather(*calls)


async def test_call_that_fails_in_passing_keeps_its_slot_for_the_next_try(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """A retry in two seconds keeps its slot; a retry in half a minute waits for a new one."""
    github.on("GET", PULL, Says(status=503, body=b""))
    for again, free in ((2 * SECOND, 15), (30 * SECOND, 16)):
        with working(holder=f"job:{again}", again=again), pytest.raises(Unavailable):
            await gateway.pull_request(repository, 3)
        assert gateway.slots_status().available_slots == free
        clock.instant += 3 * SECOND
        assert gateway.slots_status().available_slots == 16


async def test_call_refused_for_good_keeps_no_slot(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """A call refused with 404 is not retried."""
    github.on("GET", PULL, Says({"message": "Not Found"}, 404))
    with working(holder="job:1", again=SECOND), pytest.raises(NotFound):
        await gateway.pull_request(repository, 3)
    assert gateway.slots_status().available_slots == 16


async def test_requests_are_measured_by_call_and_by_what_came_of_them(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock, figures: Figures
) -> None:
    """What operators watch: how many, how they ended, how long they took and waited, and which limit was met."""
    name = "GET /repos/{owner}/{repo}/pulls/{pull_number}"
    primary = Says({"message": "API rate limit exceeded"}, 403, budget(clock, 0))
    cut = Says(hang_up=True)
    # Twice: a read on a kept connection that proves closed is sent on a new one by aiohttp, which counts as one.
    github.on("GET", PULL, Says(pull_request()), cut, cut, primary)
    await gateway.pull_request(repository, 3)
    with pytest.raises(Unavailable):
        await gateway.pull_request(repository, 3)
    await limited(gateway.pull_request(repository, 3))
    found = {key[1:]: times for key, times in figures.counts.items() if key[0] == "github_requests"}
    token = ("POST /app/installations/{installation_id}/access_tokens", "201")
    assert found == {(name, "200"): 1, (name, "none"): 1, (name, "403"): 1, token: 1}
    assert (figures.times["github_duration", name], figures.times["slot_wait", "now"]) == (3, 4)
    assert figures.counts["github_limited", "primary"] == 1


SLOW = {"message": "You have exceeded a secondary rate limit"}


@pytest.mark.parametrize(
    ("says", "error"),
    [
        (Says(hang_up=True), GitHubOutage),
        (Says({"message": "no"}, 400), Refused),
        (Says({"message": "no"}, 403), Refused),
        (Says({"message": "no"}, 404), NotFound),
        (Says({"message": "no"}, 405), MergeError),
        (Says({"message": "no"}, 408), Unavailable),
        (Says({"message": "no"}, 409), HeadConflict),
        (Says({"message": "no"}, 410), Refused),
        (Says({"message": "no"}, 415), Refused),
        (Says({"message": "no"}, 418), Refused),
        (Says({"message": "no"}, 422), Invalid),
        (Says({"message": "Validation Failed"}, 422), Refused),
        (Says({"message": "Merging stacked PRs is not supported"}, 403), Forbidden),
        (Says({"message": "no"}, 429), RateLimitError),
        (Says(SLOW, 403), RateLimitError),
        (Says(SLOW, 403, {"retry-after": "60"}), RateLimitError),
        (Says({"message": "no"}, 451), Refused),
        *((Says(status=status, body=b""), Unavailable) for status in (500, 501, 502, 503, 504, 520)),
        (Says(body=b"{cut off"), Unavailable),
    ],
)
async def test_request_is_sent_once_and_its_error_says_whether_it_may_be_stored_for_another_try(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, error: type[GitHubError]
) -> None:
    """One layer of retries, the stored one; a 4xx is retried only if GitHub does not explain it."""
    github.on("PUT", MERGE, says)
    with pytest.raises(GitHubError) as caught:
        await gateway.merge(repository, 3, "h1", MergeMethod.MERGE)
    assert (type(caught.value), is_retryable(caught.value)) == (error, PASSES[error])
    assert len(github.asked_for("PUT", MERGE)) == 1


async def test_request_with_a_token_no_longer_accepted_is_sent_once_more_with_a_new_one(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """The one exception: nothing was done, and nothing but the token was wrong; a new one is not sent twice."""
    refused = Says({"message": "Bad credentials"}, 401)
    github.on("PUT", MERGE, Says({"sha": "s1", "merged": True}), refused)
    await gateway.merge(repository, 3, "h1", MergeMethod.MERGE)
    clock.instant += timedelta(minutes=1)
    with pytest.raises(ReadLagError):
        await gateway.merge(repository, 3, "h1", MergeMethod.MERGE)
    clock.instant += timedelta(minutes=1)
    with pytest.raises(Unavailable):
        await gateway.merge(repository, 3, "h1", MergeMethod.MERGE)
    assert len(github.asked_for("PUT", MERGE)) == 5
