from datetime import timedelta

import pytest

from queue_engine.core.timing.backoff import MONITOR, OVERLOAD, REDELIVERY, REQUEST, Backoff, exponential, wait


def middle() -> float:
    """The random number at which jitter changes nothing."""
    return 0.5


def seconds(policy: Backoff, attempts: int) -> list[float]:
    return [wait(policy, attempt, random=middle).total_seconds() for attempt in range(attempts)]


def test_request_policy_waits_one_two_four_seconds_and_gives_up_after_three_tries() -> None:
    """A request is tried three times."""
    assert seconds(REQUEST, 3) == [1, 2, 4]
    assert [REQUEST.exhausted(attempts) for attempts in range(1, 5)] == [False, False, True, True]


def test_overload_policy_doubles_from_half_a_minute_to_five_minutes() -> None:
    """Somebody who is overloaded is left alone for longer and longer, at most five minutes, and never given up."""
    assert seconds(OVERLOAD, 7) == [30, 60, 120, 240, 300, 300, 300]
    assert not OVERLOAD.exhausted(1000)


def test_redelivery_policy_waits_two_to_the_attempt_minutes() -> None:
    """A stored job that went on failing comes back after 2, 4, 8, 16 minutes."""
    assert seconds(REDELIVERY, 4) == [120, 240, 480, 960]


def test_monitor_policy_grows_by_a_fifth_within_its_bounds() -> None:
    """A monitor starts at a second, slows down by a fifth each time, and stays between its bounds."""
    assert seconds(MONITOR, 3) == pytest.approx([1, 1.2, 1.44])
    assert seconds(MONITOR, 200)[-1] == 60
    assert wait(MONITOR, 0, random=lambda: 0.0) == timedelta(seconds=1)


@pytest.mark.parametrize(("number", "expected"), [(0.0, 9), (0.5, 10), (1.0, 11)])
def test_exponential_jitter_varies_to_both_sides(number: float, expected: float) -> None:
    """Ten percent of jitter are ten percent less or more."""
    waited = exponential(0, base=timedelta(seconds=10), maximum=timedelta(minutes=1), random=lambda: number)
    assert waited.total_seconds() == pytest.approx(expected)


def test_exponential_never_exceeds_maximum_with_jitter_or_huge_attempts() -> None:
    """Neither jitter nor an attempt beyond any float goes past the maximum."""
    maximum = timedelta(seconds=60)
    for attempt in (10, 100_000):
        assert exponential(attempt, base=timedelta(seconds=1), maximum=maximum, random=lambda: 1.0) == maximum


@pytest.mark.parametrize("asked", [timedelta(0), timedelta(seconds=7), timedelta(hours=1)])
def test_wait_asked_by_the_server_wins(asked: timedelta) -> None:
    """What the server asks for is what is waited, shorter or longer than the policy."""
    assert wait(REQUEST, 2, random=middle, asked=asked) == asked
