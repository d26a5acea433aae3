"""Limits of checks, and durations of landings, from past entries."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from queue_engine.domain.model import TimelineEvent
from queue_engine.rules.check_progress import check_limits_by, figures_of, time_in_checks
from tests.unit.queue_engine.examples import HOUR, MINUTE, NOW, SECOND, entry

DAY = timedelta(days=1)


@pytest.mark.parametrize(
    ("durations", "limit"),
    [
        ([HOUR], 3 * HOUR),
        # The slowest of twenty counts as an exception, the slowest of ten does not.
        ([20 * MINUTE] * 19 + [10 * HOUR], HOUR),
        ([20 * MINUTE] * 9 + [HOUR], 3 * HOUR),
        ([SECOND], 10 * MINUTE),
        ([timedelta(0)] * 8, 10 * MINUTE),
        ([DAY], DAY),
    ],
)
def test_limit_is_three_times_the_95th_percentile_within_bounds(durations: list[timedelta], limit: timedelta) -> None:
    """From ten minutes to a day."""
    assert check_limits_by(measured(durations)) == {"ci": limit.total_seconds()}


def test_each_check_has_a_limit_of_its_own_and_none_without_history() -> None:
    """A check that hangs does not get the time of the slowest one."""
    events = [{"check_seconds": {"fast": 60.0, "slow": 3600.0}}, {"check_seconds": {"fast": 400.0}}, {}]
    assert check_limits_by(events) == {"fast": 1200, "slow": 3 * 3600}


@given(st.lists(st.timedeltas(timedelta(0), DAY), min_size=1, max_size=50))
def test_limit_leaves_time_to_all_but_the_slowest_twentieth(durations: list[timedelta]) -> None:
    """A check as fast as nineteen in twenty were is in time."""
    limit = timedelta(seconds=check_limits_by(measured(durations))["ci"])
    assert 10 * MINUTE <= limit <= DAY
    assert sum(duration > limit for duration in durations) * 20 <= len(durations)


def measured(durations: list[timedelta]) -> list[dict[str, Any]]:
    """Events of tests in which the check `ci` took so long."""
    return [{"check_seconds": {"ci": each.total_seconds()}} for each in durations]


def event(word: str, at: datetime, *, of: str | None = "entry-1", ended: datetime | None = None) -> TimelineEvent:
    data = {} if ended is None else {"ended": ended.isoformat()}
    return TimelineEvent(at, word, 1, "main", 1, of, data=data)


def test_time_in_checks_adds_up_all_tries_of_this_entry() -> None:
    """The time runs from each bound head to the next status; other events, and other entries, do not count."""
    events = [
        event("checking", NOW, of="an-earlier-stay"),
        event("queued", NOW + MINUTE),
        event("checking", NOW + 2 * MINUTE),
        event("rerun", NOW + 3 * MINUTE),
        event("updating", NOW + 5 * MINUTE),
        event("checking", NOW + 6 * MINUTE),
        event("paused", NOW + 7 * MINUTE, of=None),
        event("ready", NOW + 16 * MINUTE),
        event("flaky", NOW + 16 * MINUTE),
    ]
    assert time_in_checks(events, "entry-1") == 13 * MINUTE


@pytest.mark.parametrize(
    ("ended", "took"),
    [(NOW + 12 * MINUTE, 12 * MINUTE), (NOW - HOUR, timedelta(0)), (None, 72 * HOUR)],
)
def test_time_in_checks_ends_with_them_however_late_imq_polls(ended: datetime | None, took: timedelta) -> None:
    """A pause of three days over checks of twelve minutes is no time in CI; a head that was green already had none."""
    events = [event("checking", NOW), event("ready", NOW + 72 * HOUR, ended=ended)]
    assert time_in_checks(events, "entry-1") == took


def test_figures_of_a_landing_hold_no_more_checks_than_time_at_the_front() -> None:
    """Time in checks while the queue was blocked does not count as time at the front."""
    queued = entry(id="entry-1", enqueued_at=NOW - 72 * HOUR, started_at=NOW - 5 * MINUTE)
    events = [event("checking", NOW - 71 * HOUR), event("updating", NOW - MINUTE), event("checking", NOW)]
    assert figures_of(queued, events, NOW) == {"queue": 72 * 3600, "front": 300, "checks": 300}


def test_figures_of_a_landing_are_queue_front_and_checks_in_seconds() -> None:
    """Each counted from its own beginning."""
    queued = entry(id="entry-1", enqueued_at=NOW - HOUR, started_at=NOW - 10 * MINUTE)
    events = [event("checking", NOW - 9 * MINUTE), event("ready", NOW - MINUTE)]
    assert figures_of(queued, events, NOW) == {"queue": 3600, "front": 600, "checks": 480}
