"""Parse freeze windows, and compute until when a branch is frozen. Times are local to their zone.

A window that would begin or end in an hour that daylight saving time skips does so at the jump. Where clocks are set
back, a window begins with the first and ends with the last occurrence of its time.
"""

import re
from collections.abc import Iterable, Iterator
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import lru_cache
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from queue_engine.config.document import nearest, quoted
from queue_engine.domain.policy import FreezeWindow, WeeklyFreeze

DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
SHORT = tuple(day[:3] for day in DAYS)

_WEEK = timedelta(days=7)
_FARTHEST = timedelta(days=8)
"""How far adjacent windows are joined: weekly windows that cover the whole week would have no end."""

_A_MONDAY = date(2024, 1, 1)

_MOMENT = re.compile(r"(?:(?P<day>[a-z]+) +)?(?P<hour>\d{1,2}):(?P<minute>\d\d)", re.ASCII | re.IGNORECASE)
_DATED = re.compile(r"(?P<date>\d{4}-\d\d-\d\d)(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d\d))?", re.ASCII)

Freeze = WeeklyFreeze | FreezeWindow


def frozen_until(windows: Iterable[Freeze], now: datetime) -> tuple[datetime, str] | None:
    """Return when the present freeze ends, in UTC, and its reason; None without a freeze.

    Overlapping or adjacent windows are one freeze, followed for a week at most; the reason is the present window's.
    """
    until, why = now, ""
    while until - now < _FARTHEST and (found := max(_holding(windows, until), default=None)) is not None:
        until, reason = found
        why = why or reason
    return None if until == now else (until.astimezone(UTC), why)


def _holding(freezes: Iterable[Freeze], at: datetime) -> Iterator[tuple[datetime, str]]:
    """Find the windows around this instant: their ends and reasons."""
    for freeze in freezes:
        for start, end in _windows(freeze, at):
            if start <= at < end:
                yield end, freeze.why


def _windows(freeze: Freeze, at: datetime) -> Iterator[tuple[datetime, datetime]]:
    """List the windows of a freeze near this instant, as instants."""
    if isinstance(freeze, FreezeWindow):
        yield freeze.start, freeze.end
        return
    today = at.astimezone(freeze.zone).date()
    for ago in range(freeze.lasts.days + 2):
        day = today - timedelta(days=ago)
        if day.weekday() in freeze.days:
            start = datetime.combine(day, freeze.start)
            yield instant(start, freeze.zone), instant(start + freeze.lasts, freeze.zone, last=True)


def instant(shown: datetime, zone: tzinfo, *, last: bool = False) -> datetime:
    """Convert a local time of this zone to UTC: its first or last occurrence, or the jump where clocks skip it."""
    first = shown.replace(tzinfo=zone, fold=0).astimezone(UTC)
    second = shown.replace(tzinfo=zone, fold=1).astimezone(UTC)
    if first <= second:
        return second if last else first
    # Skipped: `first` is behind the jump and `second` before it, each by the offset that does not hold there.
    before, behind = second, first
    offset = before.astimezone(zone).utcoffset()
    while behind - before > timedelta(seconds=1):
        middle = before + (behind - before) / 2
        if middle.astimezone(zone).utcoffset() == offset:
            before = middle
        else:
            behind = middle
    return behind.replace(microsecond=0)


def window(start: str, end: str, days: list[str] | None, zone: str, why: str) -> Freeze:
    """Parse a freeze. Raises ValueError.

    `fri 16:00` to `mon 08:00`; `22:00` to `06:00`, beginning on these `days`, or every day without them; or
    `2026-12-23 18:00` to `2027-01-04 08:00`, where a date without a time means the whole day.
    """
    place = time_zone(zone)
    if _DATED.fullmatch(start) and _DATED.fullmatch(end):
        if days is not None:
            raise ValueError("has both days and dates: use `days` only with times")
        return _dated(start, end, place, why)
    first, last = _moment(start), _moment(end)
    if (first[0] is None) != (last[0] is None):
        raise ValueError("must have a weekday in both `from` and `to`, or in neither")
    if first == last and days is None:
        raise ValueError("begins and ends at the same time, so it never ends")
    if first[0] is None or last[0] is None:
        on = frozenset(map(weekday, days)) if days is not None else frozenset(range(7))
        return WeeklyFreeze(on, first[1], _between(first[1], last[1], timedelta(days=1)), place, why)
    if days is not None:
        raise ValueError("has days in `days` and in `from` and `to`: use one")
    lasts = timedelta(days=last[0] - first[0]) + _between(first[1], last[1], timedelta(0))
    return WeeklyFreeze(frozenset({first[0]}), first[1], lasts if lasts > timedelta(0) else lasts + _WEEK, place, why)


def shown(freeze: Freeze) -> str:
    """Format a freeze on one line, for people."""
    why = f" ({freeze.why})" if freeze.why else ""
    if isinstance(freeze, FreezeWindow):
        return f"{freeze.start:%Y-%m-%d %H:%M} to {freeze.end:%Y-%m-%d %H:%M} {freeze.start.tzname()}{why}"
    days = "every day" if len(freeze.days) == len(DAYS) else ", ".join(SHORT[day] for day in sorted(freeze.days))
    begins = datetime.combine(_A_MONDAY + timedelta(days=min(freeze.days)), freeze.start)
    ends = begins + freeze.lasts
    until = f"{SHORT[ends.weekday()]} {ends:%H:%M}" if len(freeze.days) == 1 else f"{ends:%H:%M}"
    return f"{days} {freeze.start:%H:%M} to {until} {freeze.zone.key}{why}"


def weekday(name: str) -> int:
    """Parse a weekday, Monday 0, from its English name or short form (`mon`). Raises ValueError."""
    folded = name.strip().lower()
    for names in (DAYS, SHORT):
        if folded in names:
            return names.index(folded)
    raise ValueError(f"has an unknown weekday {quoted(name)}: use {', '.join(SHORT)}")


@lru_cache(maxsize=200)
def time_zone(name: str) -> ZoneInfo:
    """Find a time zone by its name. Raises ValueError."""
    try:
        return ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        from zoneinfo import available_timezones  # this import reads a directory: only for a misspelt zone

        raise ValueError(f"has an unknown time zone {quoted(name)}{nearest(name, available_timezones())}") from None


def _between(start: time, end: time, at_least: timedelta) -> timedelta:
    """Measure from one time of the day to another, on the next day if `at_least` is given and `end` is not later."""
    difference = timedelta(hours=end.hour - start.hour, minutes=end.minute - start.minute)
    return difference + timedelta(days=1) if at_least and difference <= timedelta(0) else difference


def _moment(text: str) -> tuple[int | None, time]:
    found = _MOMENT.fullmatch(text.strip())
    if found is None:
        raise ValueError(f'must be "16:00", "fri 16:00", "2026-12-23" or "2026-12-23 16:00", not {quoted(text)}')
    return weekday(found["day"]) if found["day"] else None, _time(found["hour"], found["minute"])


def _time(hour: str, minute: str) -> time:
    try:
        return time(int(hour), int(minute))
    except ValueError:
        raise ValueError(f"has an unknown time {hour}:{minute}") from None


def _dated(start: str, end: str, zone: ZoneInfo, why: str) -> FreezeWindow:
    begins, ends = _instant(start, zone, last=False), _instant(end, zone, last=True)
    if begins >= ends:
        raise ValueError("ends before it begins")
    return FreezeWindow(begins.astimezone(zone), ends.astimezone(zone), why)


def _instant(text: str, zone: ZoneInfo, *, last: bool) -> datetime:
    found = _DATED.fullmatch(text)
    assert found is not None
    try:
        day = date.fromisoformat(found["date"])
        if not 2000 <= day.year <= 2200:
            raise ValueError
    except ValueError:
        raise ValueError(f"has an unknown date {found['date']}") from None
    if found["hour"] is not None:
        return instant(datetime.combine(day, _time(found["hour"], found["minute"])), zone, last=last)
    return instant(datetime.combine(day, time()) + timedelta(days=int(last)), zone, last=last)
