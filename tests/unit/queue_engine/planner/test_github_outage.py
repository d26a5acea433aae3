"""GitHub's bad days, as an entry bears them."""

import logging
from datetime import timedelta

import pytest

from queue_engine.domain.errors import (
    Forbidden,
    GitHubError,
    GitHubOutage,
    HeadConflict,
    Invalid,
    MergeError,
    RateLimitError,
    ReadLagError,
    Refused,
    StaleRead,
    Unauthorized,
    Unavailable,
    attempt_level,
    is_retryable,
)
from queue_engine.domain.reasons import Reason
from queue_engine.planner.actions import Dequeue
from queue_engine.planner.github_outage import Retry, longest_wait, on_github_error, settled
from tests.store.examples import changed
from tests.unit.queue_engine.examples import HOUR, NOW, POLICY, SECOND, entry
from tests.unit.queue_engine.retryable_errors import PASSES

DOWN = Unavailable("GitHub answered 503", status=503)


def middle() -> float:
    return 0.5


def test_trouble_is_waited_out_in_the_series_of_overload() -> None:
    """Three quick tries, then 30, 60, 120, 240 and 300 seconds: exactly these, for as long as it is borne."""
    borne, now, waits = entry().run, NOW, []
    while isinstance(action := on_github_error(borne, DOWN, POLICY, now, middle), Retry):
        waits.append((action.at - now).total_seconds())
        borne, now = action.run, action.at
        assert now < NOW + 2 * POLICY.outage_timeout, "it waits for ever"
    assert waits[:9] == [1, 2, 4, 30, 60, 120, 240, 300, 300]
    assert set(waits[8:]) == {300}
    assert (action, borne.github_failing_since) == (Dequeue(Reason.GITHUB_TROUBLE, "GitHub answered 503"), NOW)
    assert now - NOW >= POLICY.outage_timeout


def test_outdated_read_is_asked_again_within_seconds_before_it_is_trouble() -> None:
    """1, 2, 4 and 8 seconds pass in silence; then it is GitHub in trouble, which begins with that try."""
    borne, now, waits, silent = entry().run, NOW, list[float](), 0
    while isinstance(action := on_github_error(borne, StaleRead("older"), POLICY, now, middle), Retry):
        waits.append((action.at - now).total_seconds())
        borne, now = action.run, action.at
        assert now < NOW + 2 * POLICY.outage_timeout, "it waits for ever"
        silent += borne.github_failing_since is None
    assert waits[:9] == [1, 2, 4, 8, 30, 60, 120, 240, 300]
    assert silent == 4
    assert action == Dequeue(Reason.GITHUB_TROUBLE, "older")


@pytest.mark.parametrize(("status", "kind"), [(403, Forbidden), (422, Invalid), (500, Refused)])
def test_refusal_that_github_repeats_for_ten_minutes_is_none_that_passes(status: int, kind: type) -> None:
    """P5: no request is repeated for an hour while everything else works."""
    error, failing = Refused("no", status=status), changed(entry(), github_failing_since=NOW).run
    assert type(settled(failing, error, NOW + timedelta(minutes=9))) is Refused
    assert type(settled(failing, error, NOW + timedelta(minutes=10))) is kind


def test_backoff_after_a_success_starts_again() -> None:
    """A success resets the failures before (`advance` sets them to zero); the next backoff starts small."""
    action = on_github_error(
        changed(entry(), github_failures=0, github_failing_since=None).run, DOWN, POLICY, NOW + HOUR, middle
    )
    assert isinstance(action, Retry)
    assert action.at == NOW + HOUR + SECOND


def test_trouble_with_a_merge_in_doubt_is_borne_for_longer() -> None:
    """Only GitHub can say whether it happened, so it gets six times as long."""
    doubtful = entry(merge_requested_at=NOW, github_failures=20, github_failing_since=NOW).run
    assert isinstance(on_github_error(doubtful, DOWN, POLICY, NOW + 6 * HOUR - SECOND, middle), Retry)
    assert isinstance(on_github_error(doubtful, DOWN, POLICY, NOW + 6 * HOUR, middle), Dequeue)


@pytest.mark.parametrize(("asked", "waited"), [(0, 1), (7, 7), (3000, 3000)])
def test_trouble_that_is_a_limit_is_waited_out_as_asked_and_counts_for_nothing(asked: int, waited: int) -> None:
    """GitHub's own word wins over any series, and a limit is no failure of GitHub."""
    limited = RateLimitError("slow down", retry_after=timedelta(seconds=asked))
    queued = entry(github_failures=2, github_failing_since=NOW - HOUR).run
    assert on_github_error(queued, limited, POLICY, NOW, middle) == Retry(queued, NOW + timedelta(seconds=waited))


@pytest.mark.parametrize("error", [Invalid, MergeError, HeadConflict, GitHubError])
def test_trouble_that_is_a_plain_refusal_is_not_tried_again(error: type[GitHubError]) -> None:
    """What GitHub refused it would refuse again (any other 4xx)."""
    assert on_github_error(entry().run, error("no"), POLICY, NOW, middle) == Dequeue(Reason.GITHUB_TROUBLE, "no")


def test_trouble_with_the_apps_key_waits_for_the_operator() -> None:
    """No pull request is to blame for a key that GitHub does not accept."""
    assert isinstance(on_github_error(entry().run, Unauthorized("Bad credentials"), POLICY, NOW, middle), Retry)


def test_error_passes_only_if_it_is_trouble_or_a_limit() -> None:
    """What is retried: network errors, 5xx, 408, 429 and secondary limits; never another 4xx."""
    for kind, again in PASSES.items():
        error = RateLimitError("slow", retry_after=SECOND) if kind is RateLimitError else kind("no")
        assert is_retryable(error) is again, (kind, again)


@pytest.mark.parametrize(("trouble", "longest"), [(0, 1.1), (1, 2.2), (2, 4), (3, 30), (7, 300)])
def test_longest_wait_is_what_chance_makes_of_it_at_most(trouble: int, longest: float) -> None:
    """A slot that is kept until the next try is kept long enough, jitter included."""
    assert longest_wait(entry(github_failures=trouble).run) == timedelta(seconds=longest)


def test_read_that_is_not_sent_yet_is_waited_for_and_counts_as_nothing() -> None:
    """The looks of an outdated read are not used up."""
    borne, early = entry(github_failures=3).run, ReadLagError("GitHub lags", retry_after=3 * SECOND)
    assert on_github_error(borne, early, POLICY, NOW, middle) == Retry(borne, NOW + 3 * SECOND)


@pytest.mark.parametrize(
    ("error", "level"),
    [
        (GitHubOutage("no route to host"), logging.DEBUG),
        (Unavailable("Server Error", status=503), logging.WARNING),
        (Forbidden("This installation has been suspended", status=403), logging.WARNING),
        (KeyError("a mistake"), logging.ERROR),
    ],
)
def test_failed_attempt_is_an_error_in_the_log_only_if_imq_is_at_fault(error: Exception, level: int) -> None:
    """Another line reports an outage, once a minute."""
    assert attempt_level(error) == level
