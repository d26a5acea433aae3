"""Estimate when a pull request lands, from the time that others spent at the front of its queue. Pure."""

from collections.abc import Sequence
from datetime import timedelta
from math import ceil, floor
from statistics import quantiles

FEWEST = 5
"""Landings without which nothing is said: fewer tell nothing of a range."""

_MINUTE = timedelta(minutes=1)
_STEPS = (
    (timedelta(minutes=10), _MINUTE),
    (timedelta(hours=1), 5 * _MINUTE),
    (timedelta(hours=3), 15 * _MINUTE),
    (timedelta(days=1), timedelta(hours=1)),
    (timedelta.max, timedelta(days=1)),
)
"""Up to which length people are told what step of time: nobody knows the minute of what takes hours."""

Range = tuple[timedelta, timedelta]


def landing(durations: Sequence[timedelta], *, ahead: int, spent: timedelta) -> Range | None:
    """From when to when it is likely to land, counted from now; None while there is too little history.

    `turns` is how long the last ones that landed were at the front, `ahead` how many stand before it, `spent` how long
    the present front has been there. The middle half of all turns is taken for each turn to come. That is
    wider than independent turns would be, on purpose: one slow day slows them all.
    """
    if len(durations) < FEWEST:
        return None
    quick, _, slow = quantiles((duration.total_seconds() for duration in durations), n=4, method="inclusive")
    # A front that has taken longer than most does not thereby promise to end at once.
    gone = min(max(spent, timedelta(0)).total_seconds(), quick)
    lowest, highest = (duration * (ahead + 1) - gone for duration in (quick, slow))
    return _rounded(timedelta(seconds=lowest), timedelta(seconds=highest))


def _rounded(low: timedelta, high: timedelta) -> Range:
    """The range in steps that fit its far end, never narrower than it was nor than one step."""
    step = next(step for most, step in _STEPS if high <= most)
    begin, end = floor(low / step) * step, ceil(high / step) * step
    return begin, max(end, begin + step)
