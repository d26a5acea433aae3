"""Format instants, durations, numbers and commits for Markdown. Pure."""

import re
from collections.abc import Collection, Iterable
from datetime import UTC, datetime, timedelta

from notifications.render.escape import code

_SHA = re.compile(r"[0-9a-f]{40}")
_NAMES_SHOWN = 5


def commit(sha: str) -> str:
    """Format a commit: its full SHA, which GitHub shortens and links, or a code span if it is invalid."""
    return sha if _SHA.fullmatch(sha) else code(sha, 12)


def duration(length: timedelta) -> str:
    """Format a duration in its two largest units; seconds only below a minute."""
    seconds = max(0, int(length.total_seconds()))
    if seconds < 60:
        return f"{seconds} s"
    minutes, hours, days = seconds // 60 % 60, seconds // 3600 % 24, seconds // 86_400
    units = [(days, "d"), (hours, "h"), (minutes, "min")]
    while not units[0][0]:
        units.pop(0)
    return " ".join(f"{count} {unit}" for count, unit in units[:2] if count)


def instant(at: datetime) -> str:
    """Format an instant to the minute."""
    return f"{at.astimezone(UTC):%Y-%m-%d %H:%M} UTC"


def pull_request(number: int) -> str:
    """Format a pull request's number in a code span: a bare one would be a mention on its page."""
    return code(f"#{number}")


def pull_requests(numbers: Iterable[int]) -> str:
    """Format several numbers."""
    return ", ".join(map(pull_request, numbers))


def names(found: Collection[str]) -> str:
    """Format the first few names, and how many more there are."""
    shown = ", ".join(code(name) for name in list(found)[:_NAMES_SHOWN])
    more = len(found) - _NAMES_SHOWN
    return f"{shown} and {more} more" if more > 0 else shown
