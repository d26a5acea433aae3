"""The sliding window: never more than the limit within any span, and waits that are long enough."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.core.timing.rate_limit import KeyLimits, RateLimit

START = datetime(2026, 1, 1, tzinfo=UTC)
SECOND, MINUTE = timedelta(seconds=1), timedelta(minutes=1)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def test_window_with_room_asks_for_no_wait() -> None:
    """Up to the limit everything goes at once."""
    window = RateLimit(3, MINUTE)
    for second in range(3):
        assert window.wait(at(second)) <= timedelta(0)
        window.take(at(second))
    assert window.used(at(3)) == 3


def test_window_that_is_full_waits_until_enough_has_passed_out_of_it() -> None:
    """Five points fit when what five points need has become a span old, and at that very instant."""
    window = RateLimit(10, MINUTE)
    window.take(at(0), 2)
    window.take(at(10), 4)
    window.take(at(20), 4)
    assert window.wait(at(30), 2) == timedelta(seconds=30)
    assert window.wait(at(30), 5) == timedelta(seconds=40)
    assert window.wait(at(70), 5) <= timedelta(0)


def test_window_leaves_a_part_to_others() -> None:
    """Who may use only a part waits while the others still find room."""
    window = RateLimit(10, MINUTE)
    window.take(at(0), 8)
    assert window.wait(at(1), of=8) == timedelta(seconds=59)
    assert window.wait(at(1)) <= timedelta(0)


def test_window_spreads_the_waits_of_those_it_rejects() -> None:
    """A hundred that come back at the same instant would be rejected a hundred times again."""
    window = RateLimit(6, MINUTE)
    for _ in range(6):
        window.take(START)
    waits = [window.delay(at(10)).total_seconds() for _ in range(4)]
    assert waits == [50, 60, 70, 80]
    assert window.delay(at(65), 1) >= timedelta(0), "two of the rejected callers have come by now"


@pytest.mark.parametrize("amount", [0, 11])
def test_window_asked_for_what_never_fits_says_so(amount: int) -> None:
    """A wait without end is a mistake of the caller."""
    with pytest.raises(ValueError, match="never fits"):
        RateLimit(10, MINUTE).wait(START, amount)


def test_window_without_room_for_anything_is_refused() -> None:
    """A limit of nothing would hold everybody for ever."""
    with pytest.raises(ValueError, match="at least one"):
        RateLimit(0, MINUTE)


def test_window_whose_clock_is_set_back_waits_for_one_span_at_most() -> None:
    """What was taken an hour from now, as the clock has it, counts as taken now."""
    window = RateLimit(2, MINUTE)
    window.take(at(3600), 2)
    window.delay(at(3600))
    assert window.wait(at(0)) == MINUTE
    assert window.delay(at(0)) == MINUTE
    assert window.wait(at(60)) <= timedelta(0)


@given(
    asks=st.lists(st.tuples(st.floats(0, 90), st.integers(1, 5), st.booleans()), max_size=60),
    limit=st.integers(5, 20),
)
def test_window_obeyed_is_never_exceeded_within_any_span(asks: list[tuple[float, int, bool]], limit: int) -> None:
    """A caller that takes only when there is no wait, or after it, keeps every span of time within the limit."""
    window, now, taken = RateLimit(limit, MINUTE), START, list[tuple[datetime, int]]()
    for pause, amount, patient in asks:
        now += timedelta(seconds=pause)
        wait = window.wait(now, amount)
        if wait > timedelta(0):
            if not patient:
                continue
            assert window.wait(now + wait - timedelta(microseconds=1), amount) > timedelta(0), "no longer than needed"
            now += wait
        window.take(now, amount)
        taken.append((now, amount))
    for end, _ in taken:
        assert sum(amount for at, amount in taken if end - MINUTE < at <= end) <= limit


def test_key_has_limits_of_its_own_within_those_of_all() -> None:
    """One that uses up its own leaves the others theirs, and takes nothing from the limit of all while it waits."""
    limits = KeyLimits((2, MINUTE), together=[(4, MINUTE)])
    assert [limits.take("a", at(0)) <= timedelta(0) for _ in range(4)] == [True, True, False, False]
    assert [limits.take("b", at(10)) <= timedelta(0) for _ in range(2)] == [True, True]
    assert limits.take("c", at(20)) == timedelta(seconds=40)
    assert limits.wait("a", at(70)) <= timedelta(0)


def test_no_key_has_the_limits_of_all_alone() -> None:
    """An address that is not shown shares no limit with another one."""
    limits = KeyLimits((1, MINUTE), together=[(3, MINUTE)])
    assert [limits.take(None, at(0)) <= timedelta(0) for _ in range(4)] == [True, True, True, False]


def test_limits_are_kept_of_the_keys_that_were_used_last() -> None:
    """The memory that they take is bounded."""
    limits = KeyLimits((1, MINUTE), most_keys=2)
    for key in "abc":
        limits.take(key, at(0))
    assert limits.wait("c", at(1)) > timedelta(0)
    assert limits.wait("a", at(1)) <= timedelta(0)
