"""Parse durations: `90s`, `20m`, `2h`, `7d`, `1h30m`."""

import re
from datetime import timedelta

from queue_engine.config.problems import quoted

_UNITS = {"d": "days", "h": "hours", "m": "minutes", "s": "seconds"}
_FORM = re.compile(r"(?:(\d{1,5})d)?(?:(\d{1,5})h)?(?:(\d{1,5})m)?(?:(\d{1,5})s)?", re.ASCII)


def duration(text: str) -> timedelta:
    """Parse a duration. Raises ValueError."""
    found = _FORM.fullmatch(text.replace(" ", ""))
    if not found or not any(found.groups()):
        raise ValueError(f"must be a duration such as 20m, 2h or 7d, not {quoted(text)}")
    amounts = zip(_UNITS.values(), found.groups(), strict=True)
    return timedelta(**{unit: int(amount) for unit, amount in amounts if amount})


def shown(length: timedelta) -> str:
    """Format a duration in the largest units that fit: `1h30m`. Fractions of a second are left out."""
    left, parts = int(length.total_seconds()), ""
    for letter, unit in _UNITS.items():
        amount, left = divmod(left, int(timedelta(**{unit: 1}).total_seconds()))
        parts += f"{amount}{letter}" if amount else ""
    return parts or "0s"
