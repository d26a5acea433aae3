"""Instants as people type them behind `/freeze until`. Pure."""

import re
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from zoneinfo import ZoneInfo

from queue_engine.config.durations import duration
from queue_engine.config.freezes import instant, weekday
from queue_engine.policy import Policy, WeeklyFreeze

FARTHEST = timedelta(days=90)
"""A freeze by hand that lasts longer is a mistake, or belongs into the configuration."""

_TIME = re.compile(r"(\d{1,2}):(\d\d)", re.ASCII)
_DATE = re.compile(r"(\d{4}-\d\d-\d\d)(?:T(\d{1,2}:\d\d)(Z)?)?", re.ASCII | re.IGNORECASE)

_MORE_OF_AN_END = re.compile(
    r"[ap]\.?m\.?|at|noon|midnight|o'clock|(?:early|late)|(?:mid)?morning|afternoon|evening|night|week|weeks|days?|hours?"
    r"|utc|gmt|z|(?:utc|gmt)?[+-]\d.*|[a-z]+/[a-z_/+-]+|\d[\d:.h-]*(?:[ap]m)?",
    re.ASCII | re.IGNORECASE,
)
"""What would change the end if it were understood: nobody's branch is open earlier than was typed."""

_ZONE = re.compile(r"[A-Z]{1,4}S?T", re.ASCII)
"""CET, EST, PDT: several zones share such letters."""


def until(words: str, policy: Policy, now: datetime) -> tuple[datetime, str]:
    """When the freeze that is typed like this ends, in UTC, and the words that are left: why.

    Times of the day are those of the zone of the policy's freezes, else of UTC; the next such time counts. A day
    without a time is meant as a whole, as in the configuration. Raises ValueError with a sentence's end for people.
    """
    rest = words.split()
    zone = _zone(policy)
    if rest and rest[0].casefold() == "until":
        rest.pop(0)
    if not rest:
        raise ValueError("says no end")
    end = _end(rest, zone, now)
    if rest and (_MORE_OF_AN_END.fullmatch(rest[0]) or _ZONE.fullmatch(rest[0])):
        raise ValueError(f"has an end with a word that is not understood: {rest[0]}; times are those of {zone}")
    if end <= now:
        raise ValueError("ends in the past")
    if end - now > FARTHEST:
        raise ValueError(f"lasts longer than {FARTHEST.days} days: write it into .github/imq.yml")
    return end, " ".join(rest)


def _zone(policy: Policy) -> tzinfo:
    """Where the clocks of the people are, as far as the configuration tells."""
    for each in policy.freezes:
        zone = each.zone if isinstance(each, WeeklyFreeze) else each.start.tzinfo
        if zone is not None:
            return zone
    return ZoneInfo("UTC")


def _end(rest: list[str], zone: tzinfo, now: datetime) -> datetime:
    """The instant that the first words name; they are taken off."""
    word = rest.pop(0).casefold()
    today = now.astimezone(zone).date()
    if found := _DATE.fullmatch(word):
        day, at = _day(found[1]), found[2] or _next_time(rest)
        if found[3]:
            zone = ZoneInfo("UTC")
        return _at(day, at, zone)
    if word in {"today", "tomorrow"}:
        return _at(today + timedelta(days=word == "tomorrow"), _next_time(rest), zone)
    if _TIME.fullmatch(word):
        end = _at(today, word, zone)
        return end if end > now else _at(today + timedelta(days=1), word, zone)
    try:
        return now + duration(word)
    except (ValueError, OverflowError):
        pass
    try:
        ahead = (weekday(word) - today.weekday()) % 7
    except ValueError:
        raise ValueError("has no end that can be read") from None
    at = _next_time(rest)
    end = _at(today + timedelta(days=ahead), at, zone)
    return end if end > now else _at(today + timedelta(days=ahead + 7), at, zone)


def _next_time(rest: list[str]) -> str | None:
    return rest.pop(0) if rest and _TIME.fullmatch(rest[0]) else None


def _day(text: str) -> date:
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"has no such day: {text}") from None


def _at(day: date, shown: str | None, zone: tzinfo) -> datetime:
    """When clocks in this zone show this on this day, in UTC; None: when the day is over."""
    if shown is None:
        return _shown(day, time(), zone, days=1)
    hour, _, minute = shown.partition(":")
    try:
        return _shown(day, time(int(hour), int(minute)), zone)
    except ValueError:
        raise ValueError(f"has no such time of the day: {shown}") from None


def _shown(day: date, at: time, zone: tzinfo, *, days: int = 0) -> datetime:
    try:
        return instant(datetime.combine(day, at) + timedelta(days=days), zone).astimezone(UTC)
    except OverflowError:
        raise ValueError(f"has no such day: {day}") from None
