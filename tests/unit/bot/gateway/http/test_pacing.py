"""GitHub's limits obeyed before they bite: slots, windows, the reserve, and each request sent once.

Covers `bot/gateway/http/limits.py`.
"""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable
from datetime import timedelta

import aiohttp
import pytest
from pydantic import SecretStr

from bot.gateway import Gateway
from bot.gateway.http import connection, pacing
from bot.gateway.http.pacing import Rates
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.domain.errors import (
    Busy,
    Forbidden,
    GitHubError,
    HeadConflict,
    Invalid,
    MergeError,
    NotFound,
    RateLimitError,
    ReadLagError,
    Unavailable,
    is_retryable,
)
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import APP_ID, ManualClock
from tests.unit.bot.github_double import GitHubDouble, Says
from tests.unit.queue_engine.retryable_errors import PASSES

PULL = "/repos/ada/engine/pulls/3"
COMMENTS = "/repos/ada/engine/issues/3/comments"
MERGE = f"{PULL}/merge"
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


class Figures:
    """A meter that a test reads."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, ...]] = Counter()
        self.times: Counter[tuple[str, ...]] = Counter()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name, *labels.values()] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        assert seconds >= 0
        self.times[name, *labels.values()] += 1


@pytest.fixture
def figures() -> Figures:
    return Figures()


@pytest.fixture
def gateway(
    session: aiohttp.ClientSession, github: GitHubDouble, pem: str, clock: ManualClock, figures: Figures
) -> Gateway:
    github.on("GET", PULL, Says(pull_request()))
    github.on("POST", COMMENTS, Says({"id": 1}, 201))
    return Gateway(
        session, api_url=github.url, app_id=str(APP_ID), private_key=SecretStr(pem), clock=clock, meter=figures
    )


def budget(clock: ManualClock, remaining: int) -> dict[str, str]:
    """Headers of an answer with so much left of 5,000 for ten minutes more."""
    reset = int((clock.now() + 10 * MINUTE).timestamp())
    return {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(reset),
    }


async def soon(true: Callable[[], bool]) -> None:
    """Let sockets do their work until something is so."""
    async with asyncio.timeout(5):
        while not true():  # noqa: ASYNC110 - there is nothing to be told by when a socket has been read
            await asyncio.sleep(0.001)


async def limited(call: Awaitable[object]) -> timedelta:
    """How long a call that is held back is to wait."""
    with pytest.raises(RateLimitError) as caught:
        await call
    return caught.value.retry_after


async def test_calls_of_an_installation_are_a_few_at_once_and_the_others_wait_their_turn(
    gateway: Gateway, github: GitHubDouble, repository: Repository
) -> None:
    """Well below the hundred at which GitHub refuses; nobody who waits is forgotten."""
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
    """A retry in two seconds does not stand in line again; one in half a minute does."""
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
    """Nobody comes back for a 404."""
    github.on("GET", PULL, Says({"message": "Not Found"}, 404))
    with working(holder="job:1", again=SECOND), pytest.raises(NotFound):
        await gateway.pull_request(repository, 3)
    assert gateway.slots_status().available_slots == 16


async def test_content_beyond_the_minutes_limit_is_held_back_before_it_is_sent(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock, figures: Figures
) -> None:
    """80 a minute are documented, and nine tenths of them used; half of these are for merges; reading goes on."""
    github.on("PUT", MERGE, Says({"sha": "m1"}))
    for _ in range(36):
        await gateway.create_comment(repository, 3, "hello")
        clock.instant += timedelta(milliseconds=100)
    assert await limited(gateway.create_comment(repository, 3, "hello")) == MINUTE - timedelta(seconds=3.6)
    for _ in range(36):
        await gateway.merge(repository, 3, "h1", MergeMethod.MERGE)
        clock.instant += timedelta(milliseconds=100)
    wait = await limited(gateway.merge(repository, 3, "h1", MergeMethod.MERGE))
    assert wait == MINUTE - timedelta(seconds=7.2)
    assert (len(github.asked_for("POST", COMMENTS)), figures.counts["github_limited", "own"]) == (36, 2)
    await gateway.pull_request(repository, 3)
    clock.instant += wait
    await gateway.create_comment(repository, 3, "hello")


async def test_content_beyond_the_hours_limit_is_held_back_one_behind_the_other(
    gateway: Gateway, repository: Repository, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Merges are content too; those who wait for the hour are spread over it. A comment looks again after a while."""
    monkeypatch.setattr(pacing, "DOCUMENTED", Rates(content_per_hour=20))
    for _ in range(18):
        await gateway.create_comment(repository, 3, "hello")
    waits = [
        await limited(gateway.merge(repository, 3, "h1", MergeMethod.MERGE)),
        await limited(gateway.merge(repository, 4, "h2", MergeMethod.MERGE)),
        await limited(gateway.create_comment(repository, 3, "hello")),
    ]
    assert waits == [60 * MINUTE, 60 * MINUTE + 200 * SECOND, 10 * MINUTE]


async def test_points_beyond_the_minutes_limit_are_held_back_and_the_background_first(
    gateway: Gateway, github: GitHubDouble, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write is five points, a read one; a sweep leaves a fifth of them to what people wait for, and that the rest to
    updates and merges.
    """
    monkeypatch.setattr(pacing, "DOCUMENTED", Rates(points_per_minute=100))
    for _ in range(5):
        await gateway.create_comment(repository, 3, "hello")
    with working(RequestPriority.BACKGROUND):
        for _ in range(21):
            await gateway.pull_request(repository, 3)
        assert await limited(gateway.pull_request(repository, 3)) == MINUTE / 2
    for _ in range(8):
        await gateway.pull_request(repository, 3)
    assert await limited(gateway.pull_request(repository, 3)) == MINUTE / 2
    assert len(github.asked_for("GET", PULL)) == 29


async def test_windows_of_one_installation_hold_back_no_other(
    gateway: Gateway, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """P5: limits are GitHub's per installation."""
    monkeypatch.setattr(pacing, "DOCUMENTED", Rates(content_per_minute=2))
    await gateway.create_comment(repository, 3, "hello")
    await limited(gateway.create_comment(repository, 3, "hello"))
    await gateway.create_comment(Repository(id=6, owner="ada", name="engine", installation_id=10), 3, "hello")


async def test_last_tenth_of_the_hours_requests_is_for_what_people_wait_for(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """A sweep is held back until the reset, and goes on then; a merge goes on at once."""
    github.on("GET", PULL, Says(pull_request(), headers=budget(clock, 500)), Says(pull_request()))
    await gateway.pull_request(repository, 3)
    with working(RequestPriority.BACKGROUND):
        assert await limited(gateway.pull_request(repository, 3)) == gateway.budget[9].resets_at - clock.now()
    await gateway.pull_request(repository, 3)
    assert len(github.asked_for("GET", PULL)) == 2
    clock.instant += 10 * MINUTE
    with working(RequestPriority.BACKGROUND):
        await gateway.pull_request(repository, 3)


async def test_requests_under_way_count_as_used(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """The last answer said that one is left, and that one is under way: the next waits to hear what came of it."""
    github.on("GET", PULL, Says(pull_request(), headers=budget(clock, 1)), Says(pull_request(), hang=True))
    await gateway.pull_request(repository, 3)
    last = asyncio.create_task(gateway.pull_request(repository, 3))
    await soon(lambda: len(github.asked_for("GET", PULL)) == 2)
    assert await limited(gateway.pull_request(repository, 3)) == SECOND
    github.let_go()
    await last


async def test_secondary_limit_that_names_no_time_is_waited_out_longer_each_time(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock, figures: Figures
) -> None:
    """A minute, then twice as long each time, says GitHub; after a success a minute again. Never sent meanwhile."""
    slow = Says({"message": "You have exceeded a secondary rate limit"}, 403)
    github.on("GET", PULL, slow, slow, slow, Says(pull_request()), slow)
    waits = []
    for expected in (1, 2, 4):
        waits.append(await limited(gateway.pull_request(repository, 3)))
        clock.instant += expected * MINUTE - SECOND
        assert await limited(gateway.pull_request(repository, 3)) == SECOND
        clock.instant += SECOND
    await gateway.pull_request(repository, 3)
    waits.append(await limited(gateway.pull_request(repository, 3)))
    assert waits == [MINUTE, 2 * MINUTE, 4 * MINUTE, MINUTE]
    assert (figures.counts["github_limited", "secondary"], figures.counts["github_limited", "own"]) == (4, 3)


async def test_wait_for_a_limit_begins_again_when_the_clock_is_set_back(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock
) -> None:
    """Nobody waits for an hour more because the clock was an hour ahead."""
    github.on("GET", PULL, Says({"message": "slow"}, 429, {"retry-after": "30"}), Says(pull_request()))
    await limited(gateway.pull_request(repository, 3))
    clock.instant -= timedelta(hours=1)
    assert await limited(gateway.pull_request(repository, 3)) == 30 * SECOND
    clock.instant += 30 * SECOND
    await gateway.pull_request(repository, 3)


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
        (Says(hang_up=True), Unavailable),
        (Says({"message": "no"}, 400), GitHubError),
        (Says({"message": "no"}, 403), Forbidden),
        (Says({"message": "no"}, 404), NotFound),
        (Says({"message": "no"}, 405), MergeError),
        (Says({"message": "no"}, 408), Unavailable),
        (Says({"message": "no"}, 409), HeadConflict),
        (Says({"message": "no"}, 410), NotFound),
        (Says({"message": "no"}, 415), GitHubError),
        (Says({"message": "no"}, 418), GitHubError),
        (Says({"message": "no"}, 422), Invalid),
        (Says({"message": "no"}, 429), RateLimitError),
        (Says(SLOW, 403), RateLimitError),
        (Says(SLOW, 403, {"retry-after": "60"}), RateLimitError),
        (Says({"message": "no"}, 451), GitHubError),
        *((Says(status=status, body=b""), Unavailable) for status in (500, 501, 502, 503, 504, 520)),
        (Says(body=b"{cut off"), Unavailable),
    ],
)
async def test_request_is_sent_once_and_its_error_says_whether_it_may_be_stored_for_another_try(
    gateway: Gateway, github: GitHubDouble, repository: Repository, says: Says, error: type[GitHubError]
) -> None:
    """One layer of retries, the stored one; network errors, 5xx, 408, 429 and secondary limits, no other 4xx."""
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
