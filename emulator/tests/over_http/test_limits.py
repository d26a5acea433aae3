"""GitHub's limits, counted with the injected clock."""

from datetime import timedelta

import pytest

from github_emulator import Limits, ManualClock
from github_emulator.callers.errors import Refusal


def ask(limits: Limits, *, write: bool = False, creates: bool = False, template: str = "GET /x") -> None:
    limits.check("installation 7", template, write=write, creates=creates, request_id="ID")


def test_primary_limit_exhausted_refuses_until_the_reset() -> None:
    """When the hour's requests are used up, everything is 403 until the hour is over."""
    clock = ManualClock()
    limits = Limits(clock, primary=3)
    for _ in range(3):
        ask(limits)
    with pytest.raises(Refusal, match=r"API rate limit exceeded for installation ID 7\.") as refused:
        ask(limits)
    assert refused.value.status == 403
    assert limits.budget("installation 7").headers()["X-RateLimit-Remaining"] == "0"
    assert [violation.kind for violation in limits.violations] == ["primary"]
    clock.advance(timedelta(hours=1))
    ask(limits)
    assert limits.budget("installation 7").remaining == 2


def test_refund_of_a_304_gives_the_request_back() -> None:
    """A conditional request that found nothing new costs no primary limit."""
    limits = Limits(ManualClock(), primary=3)
    ask(limits)
    limits.refund("installation 7")
    assert limits.budget("installation 7").remaining == 3


def test_points_of_one_endpoint_writes_weigh_five() -> None:
    """900 points a minute and endpoint: 180 writes pass, the next is refused with a time to wait."""
    clock = ManualClock()
    limits = Limits(clock)
    for _ in range(180):
        ask(limits, write=True)
    with pytest.raises(Refusal, match="secondary rate limit") as refused:
        ask(limits, write=True)
    assert refused.value.headers == {"Retry-After": "60"}
    ask(limits, write=True, template="GET /another")
    clock.advance(timedelta(minutes=1))
    ask(limits, write=True)


def test_points_of_all_endpoints_together_where_that_is_switched_on() -> None:
    """The stricter reading of GitHub's documentation; GraphQL has 2,000 points of its own."""
    limits = Limits(ManualClock(), points_together=True)
    for _ in range(180):
        ask(limits, write=True)
    with pytest.raises(Refusal):
        ask(limits, template="GET /another")
    for _ in range(2_000):
        limits.check("installation 7", "POST /graphql", write=False, creates=False, request_id="A", resource="graphql")
    with pytest.raises(Refusal):
        limits.check("installation 7", "POST /graphql", write=False, creates=False, request_id="A", resource="graphql")


def test_update_of_a_branch_counts_as_content_where_that_is_switched_on() -> None:
    """GitHub's reference does not mark it; both answers can be had."""
    limits = Limits(ManualClock(), creations_per_minute=1)
    update = "PUT /repos/{owner}/{repo}/pulls/{number}/update-branch"
    for _ in range(2):
        ask(limits, write=True, creates=True, template=update)
    limits.updates_create = True
    ask(limits, write=True, creates=True, template=update)
    with pytest.raises(Refusal):
        ask(limits, write=True, creates=True, template=update)


def test_content_creation_is_bounded_by_minute_and_hour() -> None:
    """80 creations a minute, 500 an hour."""
    clock = ManualClock()
    limits = Limits(clock, points_per_minute=10_000)
    for _ in range(80):
        ask(limits, creates=True)
    with pytest.raises(Refusal):
        ask(limits, creates=True)
    created = 80
    while created < 500:
        clock.advance(timedelta(minutes=1))
        for _ in range(min(80, 500 - created)):
            ask(limits, creates=True)
            created += 1
    clock.advance(timedelta(minutes=1))
    with pytest.raises(Refusal) as refused:
        ask(limits, creates=True)
    assert refused.value.headers["Retry-After"] == str(53 * 60)


def test_concurrent_requests_above_a_hundred_are_refused() -> None:
    """The hundred-and-first request at once is refused; when one has ended, the next passes."""
    limits = Limits(ManualClock())
    for _ in range(101):
        limits.enter("installation 7")
    with pytest.raises(Refusal, match="secondary rate limit"):
        ask(limits)
    limits.leave("installation 7")
    ask(limits)


def test_secondary_limit_answers_as_configured() -> None:
    """403 or 429, with or without Retry-After."""
    limits = Limits(ManualClock(), points_per_minute=0, status=429, retry_after=None)
    with pytest.raises(Refusal) as refused:
        ask(limits)
    assert refused.value.status == 429
    assert refused.value.headers == {}
