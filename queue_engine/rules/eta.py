"""Estimate when a pull request lands, from the time that earlier ones spent at the front of its queue. Pure."""

from collections.abc import Sequence
from datetime import timedelta
from math import ceil, floor
from statistics import quantiles

FEWEST = 5
"""The number of landings below which there is no estimate."""

_MINUTE = timedelta(minutes=1)
_STEPS = (
    (timedelta(minutes=10), _MINUTE),
    (timedelta(hours=1), 5 * _MINUTE),
    (timedelta(hours=3), 15 * _MINUTE),
    (timedelta(days=1), timedelta(hours=1)),
    (timedelta.max, timedelta(days=1)),
)
"""The precision of an estimate: up to the first duration, it is rounded to the second one."""

Range = tuple[timedelta, timedelta]


def landing(durations: Sequence[timedelta], *, ahead: int, spent: timedelta) -> Range | None:
    """Return the range in which it is likely to land, counted from now; None while there is too little history.

    `durations` is how long the last landed entries were at the front, and `spent` how long the present front has been
    there. `ahead` is how many entries are before this one. Each of them counts with the middle half of all durations.
    That range is wider than for independent durations, on purpose: a slow day slows all of them.
    """
    if len(durations) < FEWEST:
        return None
    quick, _, slow = quantiles((duration.total_seconds() for duration in durations), n=4, method="inclusive")
    # A front that has taken longer than most will not necessarily end at once.
    elapsed = min(max(spent, timedelta(0)).total_seconds(), quick)
    lowest, highest = (duration * (ahead + 1) - elapsed for duration in (quick, slow))
    return _rounded(timedelta(seconds=lowest), timedelta(seconds=highest))


def _rounded(low: timedelta, high: timedelta) -> Range:
    """Round the range outwards, by a step that suits its end; the result spans at least one step."""
    step = next(step for most, step in _STEPS if high <= most)
    begin, end = floor(low / step) * step, ceil(high / step) * step
    return begin, max(end, begin + step)
