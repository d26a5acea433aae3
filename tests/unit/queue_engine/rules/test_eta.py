"""When a pull request is likely to land: a range, and none that is more exact than anybody can know."""

from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.queries.queue_status import FEWEST, landing

NONE = timedelta(0)
DURATIONS = st.lists(
    st.timedeltas(min_value=timedelta(seconds=1), max_value=timedelta(hours=20)), min_size=FEWEST, max_size=50
)


def minutes(*counts: float) -> list[timedelta]:
    """Durations at the front of so many minutes."""
    return [timedelta(minutes=count) for count in counts]


def test_eta_without_history_is_not_known() -> None:
    """Four landings tell nothing of a range, five begin to."""
    assert landing(minutes(10, 10, 10, 10), ahead=0, spent=NONE) is None
    assert landing(minutes(10, 10, 10, 10, 10), ahead=0, spent=NONE) is not None


@pytest.mark.parametrize(
    ("durations", "ahead", "spent", "low", "high"),
    [
        ((6, 8, 10, 12, 60), 0, 0, 5, 15),
        ((6, 8, 10, 12, 60), 2, 0, 20, 40),
        ((6, 8, 10, 12, 60), 2, 5, 15, 35),
        ((6, 8, 10, 12, 60), 0, 50, 0, 4),
        ((10, 10, 10, 10, 10), 1, 0, 20, 25),
        ((40, 50, 60, 70, 80), 1, 0, 90, 150),
        ((40, 50, 60, 70, 80), 9, 0, 480, 720),
    ],
)
def test_eta_is_the_middle_half_of_past_durations_for_each_run_to_come(
    durations: tuple[float, ...], ahead: int, spent: float, low: float, high: float
) -> None:
    """One slow run does not count, the time that the front has had already does, and the steps grow with the wait."""
    expected = landing(minutes(*durations), ahead=ahead, spent=timedelta(minutes=spent))
    assert expected is not None
    assert [end / timedelta(minutes=1) for end in expected] == [low, high]


@given(durations=DURATIONS, ahead=st.integers(0, 100), spent=st.timedeltas(min_value=NONE, max_value=timedelta(days=2)))
def test_eta_is_a_range_within_what_past_durations_allow(
    durations: list[timedelta], ahead: int, spent: timedelta
) -> None:
    """Never empty, never in the past, and past entries would have landed in it."""
    expected = landing(durations, ahead=ahead, spent=spent)
    assert expected is not None
    low, high = expected
    assert NONE <= low < high
    assert low <= max(durations) * (ahead + 1)
    assert high >= min(durations) * ahead


@given(durations=DURATIONS, ahead=st.integers(0, 50))
def test_eta_with_more_ahead_is_never_sooner(durations: list[timedelta], ahead: int) -> None:
    """An entry is never estimated to land before one ahead of it."""
    nearer, farther = (landing(durations, ahead=count, spent=NONE) for count in (ahead, ahead + 1))
    assert nearer is not None
    assert farther is not None
    assert nearer[1] <= farther[1]
