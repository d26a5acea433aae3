"""Parse the end of `/freeze until`: a duration, or a date with or without a time (docs/commands.md). Pure."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from queue_engine.config.freezes import instant
from queue_engine.config.model import Policy
from queue_engine.config.timing import duration
from queue_engine.domain.policy import WeeklyFreeze

FARTHEST = timedelta(days=90)
"""The longest freeze by hand; longer ones belong into the configuration."""

_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d{1,2}:\d\d)(Z)?)?", re.ASCII | re.IGNORECASE)
_TIME = re.compile(r"\d{1,2}:\d\d", re.ASCII)

_MORE_OF_AN_END = re.compile(r"[\d+-].*|(?i:[ap]\.?m\.?|utc|gmt|z)|[A-Z]{1,4}S?T|[A-Za-z]+/[A-Za-z_/+-]+", re.ASCII)
"""Another number, or a zone: without it the freeze would end earlier than requested."""


def until(words: str, policy: Policy, now: datetime) -> tuple[datetime, str]:
    """Parse when a freeze ends, in UTC, and the rest of the text, its reason.

    The end is a duration, or a date with or without a time, in the zone of the policy's freezes, else in UTC. A day
    without a time is meant as a whole, as in the configuration. Raises ValueError with a sentence's end for people.
    """
    rest = words.split()
    zone = _zone(policy)
    if rest and rest[0].casefold() == "until":
        rest.pop(0)
    if not rest:
        raise ValueError("says no end")
    end = _end(rest, zone, now)
    if rest and _MORE_OF_AN_END.fullmatch(rest[0]):
        raise ValueError(f"has an end with a word that is not understood: {rest[0]}; times are those of {zone}")
    if end <= now:
        raise ValueError("ends in the past")
    if end - now > FARTHEST:
        raise ValueError(f"lasts longer than {FARTHEST.days} days: write it into .github/imq.yml")
    return end, " ".join(rest)


def _zone(policy: Policy) -> tzinfo:
    """Return the time zone of the configuration, else UTC."""
    for each in policy.freeze.windows:
        zone = each.zone if isinstance(each, WeeklyFreeze) else each.start.tzinfo
        if zone is not None:
            return zone
    return ZoneInfo("UTC")


def _end(rest: list[str], zone: tzinfo, now: datetime) -> datetime:
    """Parse the instant that the first words name, and remove them."""
    word = rest.pop(0)
    if found := _DATE.fullmatch(word):
        at = found[2] or (rest.pop(0) if rest and _TIME.fullmatch(rest[0]) else None)
        return _at(_day(found[1]), at, ZoneInfo("UTC") if found[3] else zone)
    try:
        return now + duration(word.casefold())
    except (ValueError, OverflowError):
        raise ValueError("has no end that can be read; write 2h, 2026-12-24 or 2026-12-24 08:00") from None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"has an unknown date {text}") from None


def _at(day: date, shown: str | None, zone: tzinfo) -> datetime:
    """Return this time of the day in this zone, in UTC; None means the end of the day."""
    if shown is None:
        return _shown(day, time(), zone, days=1)
    hour, _, minute = shown.partition(":")
    try:
        return _shown(day, time(int(hour), int(minute)), zone)
    except ValueError:
        raise ValueError(f"has an unknown time {shown}") from None


def _shown(day: date, at: time, zone: tzinfo, *, days: int = 0) -> datetime:
    try:
        return instant(datetime.combine(day, at) + timedelta(days=days), zone).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"has an unknown date {day}") from None
