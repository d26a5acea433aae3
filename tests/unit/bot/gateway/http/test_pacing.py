"""GitHub's limits obeyed before they bite: slots, windows, the reserve, and each request sent once."""

import asyncio
from datetime import timedelta

import pytest

from bot.gateway import Gateway
from bot.gateway.http import pacing
from bot.gateway.http.client import Call
from bot.gateway.http.pacing import Pacing, Rates
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository
from tests.unit.bot.answers import pull_request
from tests.unit.bot.conftest import ManualClock
from tests.unit.bot.gateway.http.pacing_examples import (
    COMMENTS,
    MERGE,
    MINUTE,
    PULL,
    SECOND,
    Figures,
    budget,
    limited,
    soon,
)
from tests.unit.bot.github_double import GitHubDouble, Says


async def test_content_beyond_the_minutes_limit_is_held_back_before_it_is_sent(
    gateway: Gateway, github: GitHubDouble, repository: Repository, clock: ManualClock, figures: Figures
) -> None:
    """GitHub documents 80 a minute; IMQ uses nine tenths, half of these for merges. Reads are not limited."""
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
    """A write costs five points, a read one.

    A sweep leaves a fifth of the points to urgent calls. These leave the rest to updates and merges.
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
    """The gateway holds a sweep until the reset; a merge is sent at once."""
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
    """The last answer left one request, and that one is under way: the next call waits for its answer."""
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
    """No call waits an hour more because the clock was an hour ahead."""
    github.on("GET", PULL, Says({"message": "slow"}, 429, {"retry-after": "30"}), Says(pull_request()))
    await limited(gateway.pull_request(repository, 3))
    clock.instant -= timedelta(hours=1)
    assert await limited(gateway.pull_request(repository, 3)) == 30 * SECOND
    clock.instant += 30 * SECOND
    await gateway.pull_request(repository, 3)


def test_refused_check_run_counts_check_runs_as_content_for_an_hour(clock: ManualClock) -> None:
    """P6: GitHub may have meant another limit, and without check runs many pull requests would have no word."""
    pace = Pacing(Rates(content_per_minute=10, content_per_hour=10))
    check_run, comment = (
        Call("POST", f"/repos/{{owner}}/{{repo}}/{what}") for what in ("check-runs", "issues/{issue_number}/comments")
    )
    for _ in range(20):
        assert pace.admit(check_run, RequestPriority.NOW, clock.now()) is None
    assert pace.has_other_words(comment)
    pace.refused(check_run, clock.now())
    assert not pace.has_other_words(comment)
    assert pace.admit(check_run, RequestPriority.NOW, clock.now()) is not None
    clock.instant += timedelta(hours=1)
    assert pace.admit(check_run, RequestPriority.NOW, clock.now()) is None
    assert pace.has_other_words(comment)
