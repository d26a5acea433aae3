"""Format instants, durations, numbers and commits for Markdown. Pure."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from notifications.render.escape import code

_SHA = re.compile(r"[0-9a-f]{40}")
_NAMES_SHOWN = 5


def commit(sha: str) -> str:
    """A commit: its whole SHA, which GitHub itself shortens and links, or a code span if it is none."""
    return sha if _SHA.fullmatch(sha) else code(sha, 12)


def duration(length: timedelta) -> str:
    """A length of time in its two largest units; seconds only below a minute; a negative one is none."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    units = [(days, "d"), (hours, "h"), (minutes, "min")]
    while not units[0][0]:
        units.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in units[:2] if count)


def instant(at: datetime) -> str:
    """An instant to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def pull_request(number: int) -> str:
    """A pull request's number in a code span: a bare one would be a mention on that pull request's own page."""
    return code(f"#{number}")


def pull_requests(numbers: Iterable[int]) -> str:
    """Several, in their order."""
    return ", ".join(map(pull_request, numbers))


def names(found: Collection[str]) -> str:
    """The names of checks and the like: a few, and how many more."""
    shown = ", ".join(code(name) for name in list(found)[:_NAMES_SHOWN])
    more = len(found) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
