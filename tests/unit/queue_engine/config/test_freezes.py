"""Freezes: as written, through the night, over a weekend, and when clocks are set forward or back."""

from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from functools import lru_cache
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from queue_engine.config.freezes import Freeze, frozen_until, shown, window
from queue_engine.config.model import FreezeRules, Policy
from queue_engine.domain.policy import FreezeWindow, WeeklyFreeze

MINUTE = timedelta(minutes=1)
WEEK = timedelta(days=7)


def at(text: str) -> datetime:
    return datetime.fromisoformat(text).astimezone(UTC)


def until(freezes: list[Freeze], now: str) -> str | None:
    found = frozen_until(freezes, at(now))
    return None if found is None else found[0].isoformat(timespec="minutes").removesuffix("+00:00")


def weekend() -> Freeze:
    return window("fri 16:00", "mon 08:00", None, "Europe/Berlin", "Weekend")


@pytest.mark.parametrize(
    ("now", "ends"),
    [
        ("2026-05-01T13:59:59Z", None),
        ("2026-05-01T14:00Z", "2026-05-04T06:00"),
        ("2026-05-04T05:59:59Z", "2026-05-04T06:00"),
        ("2026-05-04T06:00Z", None),
        # Over the night in which clocks are set back: it still ends when they show 8.
        ("2026-10-24T12:00Z", "2026-10-26T07:00"),
        ("2027-03-27T12:00Z", "2027-03-29T06:00"),
    ],
)
def test_frozen_until_weekend_holds_by_the_clocks_of_its_zone(now: str, ends: str | None) -> None:
    """From Friday 16:00 to Monday 8:00 as people there see it, its first instant included and its last not."""
    assert until([weekend()], now) == ends


def test_frozen_until_has_the_reason() -> None:
    """People read the reason of the window that holds now."""
    policy = replace(
        Policy(),
        freeze=FreezeRules(windows=(weekend(), window("2026-05-04", "2026-05-05", None, "Europe/Berlin", "Fair"))),
    )
    assert frozen_until(policy.freeze.windows, at("2026-05-03T12:00Z")) == (at("2026-05-05T22:00Z"), "Weekend")
    assert frozen_until(policy.freeze.windows, at("2026-05-05T12:00Z")) == (at("2026-05-05T22:00Z"), "Fair")


@pytest.mark.parametrize(
    ("days", "now", "ends"),
    [
        (None, "2026-05-06T23:00Z", "2026-05-07T06:00"),
        (None, "2026-05-06T05:59Z", "2026-05-06T06:00"),
        (None, "2026-05-06T12:00Z", None),
        (["wed"], "2026-05-06T05:00Z", None),
        (["wed"], "2026-05-07T05:00Z", "2026-05-07T06:00"),
    ],
)
def test_frozen_until_night_belongs_to_the_day_it_begins_on(days: list[str] | None, now: str, ends: str | None) -> None:
    """A window over midnight lasts into a day that is not in its list."""
    assert until([window("22:00", "06:00", days, "UTC", "")], now) == ends


def test_frozen_until_windows_that_touch_are_one() -> None:
    """IMQ announces no end at which the next window begins."""
    nights = window("22:00", "06:00", None, "UTC", "")
    mornings = window("06:00", "09:00", ["thu"], "UTC", "")
    assert until([mornings, nights], "2026-05-06T23:00Z") == "2026-05-07T09:00"


def test_frozen_until_windows_without_end_are_followed_for_a_week() -> None:
    """A freeze that never ends gives an answer all the same, and costs little."""
    days, nights = window("06:00", "18:00", None, "UTC", ""), window("18:00", "06:00", None, "UTC", "")
    assert until([days, nights], "2026-05-06T12:00Z") == "2026-05-14T18:00"


@pytest.mark.parametrize(
    ("text", "ends"), [("2027-01-04", "2027-01-04T23:00"), ("2027-01-04 08:00", "2027-01-04T07:00")]
)
def test_frozen_until_date_includes_its_day(text: str, ends: str) -> None:
    """Who writes a date means all of that day."""
    holidays = window("2026-12-23", text, None, "Europe/Berlin", "")
    assert until([holidays], "2026-12-22T22:59Z") is None
    assert until([holidays], "2026-12-22T23:00Z") == ends


CHANGES = {
    "Berlin in spring": ("Europe/Berlin", date(2026, 3, 29)),
    "Berlin in autumn": ("Europe/Berlin", date(2026, 10, 25)),
    "New York in spring": ("America/New_York", date(2026, 3, 8)),
    "New York in autumn": ("America/New_York", date(2026, 11, 1)),
    "Lord Howe, by half an hour": ("Australia/Lord_Howe", date(2026, 10, 4)),
    "Kathmandu, never": ("Asia/Kathmandu", date(2026, 10, 25)),
}
"""A zone, and the day on which its clocks are set."""


@lru_cache
def clock(zone: str, day: date) -> list[tuple[datetime, datetime]]:
    """Every minute from eight days before to eight days after: as an instant, and as clocks show it."""
    start = datetime.combine(day, time(), UTC) - timedelta(days=8)
    instants = [start + MINUTE * n for n in range(16 * 24 * 60)]
    return [(each, each.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0)) for each in instants]


def slowly(freeze: WeeklyFreeze, minutes: list[tuple[datetime, datetime]]) -> set[datetime]:
    """By watching a clock: from the first minute that shows the start or later to the last before it shows the end."""
    found: set[datetime] = set()
    for day in sorted({minute.date() for _, minute in minutes}):
        if day.weekday() in freeze.days:
            start = datetime.combine(day, freeze.start)
            end = start + freeze.lasts
            first = next((n for n, (_, minute) in enumerate(minutes) if minute >= start), len(minutes))
            last = max((n for n, (_, minute) in enumerate(minutes) if minute < end), default=-1)
            found |= {instant for instant, _ in minutes[first : last + 1]}
    return found


DAY = 24 * 60
WEEKLY = st.builds(
    WeeklyFreeze,
    days=st.frozensets(st.integers(0, 6), min_size=1, max_size=2),
    start=st.builds(time, st.integers(0, 23), st.sampled_from([0, 29, 30, 59])),
    lasts=st.integers(1, 100).map(lambda n: MINUTE * n) | st.integers(1, 5 * DAY).map(lambda n: MINUTE * n),
    zone=st.just(ZoneInfo("UTC")),
)
NIGHT = WeeklyFreeze(frozenset({6}), time(2, 30), MINUTE * 60, ZoneInfo("UTC"))


@settings(max_examples=30, deadline=None)
@given(
    change=st.sampled_from(sorted(CHANGES)),
    weekly=st.lists(WEEKLY, min_size=1, max_size=2),
    minute=st.integers(7 * DAY, 9 * DAY),
)
@example("Berlin in spring", [NIGHT], 8 * DAY + 60)
@example("Berlin in spring", [replace(NIGHT, start=time(1, 45))], 8 * DAY + 59)
@example("Berlin in autumn", [replace(NIGHT, start=time(2), lasts=MINUTE * 30)], 8 * DAY + 45)
@example("Lord Howe, by half an hour", [replace(NIGHT, start=time(2, 15), lasts=MINUTE * 5)], 8 * DAY - 600)
@pytest.mark.thorough
def test_frozen_until_agrees_with_watching_a_clock(change: str, weekly: list[WeeklyFreeze], minute: int) -> None:
    """Whatever the zone, the days and the hour at which clocks are set, a minute is frozen or not as clocks show it."""
    zone, day = CHANGES[change]
    freezes = tuple(replace(freeze, zone=ZoneInfo(zone)) for freeze in weekly)
    minutes = clock(zone, day)
    frozen = set[datetime]().union(*(slowly(freeze, minutes) for freeze in freezes))
    now = end = minutes[minute][0]
    while end in frozen:
        end += MINUTE
    found = frozen_until(freezes, now)
    if end - now < WEEK and end <= minutes[-1][0]:
        assert (found[0] if found else now) == end
    else:
        assert found is not None
        assert found[0] - now >= WEEK


def test_window_that_makes_no_sense_is_explained() -> None:
    """Each mistake that people make with times has its own sentence."""
    for start, end, days, zone, words in [
        ("16:00", "mon 08:00", None, "UTC", "a weekday in both"),
        ("fri 16:00", "mon 08:00", ["fri"], "UTC", "has days in `days` and in"),
        ("fri 16:00", "Fri 16:00", None, "UTC", "so it never ends"),
        ("16:00", "16:00", None, "UTC", "so it never ends"),
        ("2026-12-24", "2026-12-26", ["fri"], "UTC", "has both days and dates"),
        ("2026-12-24", "2026-12-23", None, "UTC", "ends before it begins"),
        ("2026-02-30", "2026-03-01", None, "UTC", "an unknown date 2026-02-30"),
        ("24:00", "08:00", None, "UTC", "an unknown time 24:00"),
        ("fry 16:00", "mon 08:00", None, "UTC", "an unknown weekday"),
        ("16:00", "08:00", ["someday"], "UTC", "an unknown weekday"),
        ("16:00", "2026-12-24", None, "UTC", "must be"),
        ("16:00", "17:00", None, "Europe/Berln", "did you mean Europe/Berlin"),
        ("16:00", "17:00", None, "../../etc/passwd", "an unknown time zone"),
    ]:
        with pytest.raises(ValueError, match=words):
            window(start, end, days, zone, "")


@pytest.mark.parametrize(
    ("freeze", "line"),
    [
        (weekend(), "fri 16:00 to mon 08:00 Europe/Berlin (Weekend)"),
        (window("mon 10:00", "mon 09:00", None, "UTC", ""), "mon 10:00 to mon 09:00 UTC"),
        (window("22:00", "06:00", ["Monday", "thu"], "UTC", ""), "mon, thu 22:00 to 06:00 UTC"),
        (window("12:00", "13:00", None, "UTC", "Lunch"), "every day 12:00 to 13:00 UTC (Lunch)"),
        (
            window("2026-07-01", "2026-07-02 12:00", None, "Europe/Berlin", ""),
            "2026-07-01 00:00 to 2026-07-02 12:00 CEST",
        ),
    ],
)
def test_shown_freeze_is_one_line_that_people_read(freeze: WeeklyFreeze | FreezeWindow, line: str) -> None:
    """What was understood can be compared with what was meant."""
    assert shown(freeze) == line
