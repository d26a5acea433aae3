"""Estimates of a team's figures, each with its error and its origin."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

_DEVIATIONS = 1.96
"""Of a normal distribution, for an interval that has the true value in 95 of 100 cases."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """A figure, with the interval that has its true value in 95 of 100 cases. `source`: where it comes from."""

    value: float
    low: float
    high: float
    source: str

    @property
    def assumed(self) -> bool:
        """Whether nothing was measured."""
        return self.low == self.high


def fixed(value: float, source: str) -> Estimate:
    """Return a figure that was not measured."""
    return Estimate(value, value, value, source)


def share(happened: int, total: int, source: str) -> Estimate | None:
    """Estimate a chance by Wilson's interval, which fits small numbers too; None without an observation."""
    if not total:
        return None
    part, square = happened / total, _DEVIATIONS**2
    middle = (part + square / (2 * total)) / (1 + square / total)
    half = _DEVIATIONS * sqrt(part * (1 - part) / total + square / (4 * total**2)) / (1 + square / total)
    return Estimate(part, min(part, middle - half), max(part, middle + half), source)


def mean(values: Sequence[float], source: str, cut: Sequence[float] = ()) -> Estimate | None:
    """Estimate a mean; None without an observation.

    `cut`: values that were cut short. Long ones are cut more often, so Kaplan's and Meier's estimator counts them.
    """
    if not values:
        return None
    middle, before, share_left = 0.0, 0.0, 1.0
    observed = sorted([*((each, True) for each in values), *((each, False) for each in cut)])
    for position, (value, whole) in enumerate(observed):
        middle += share_left * (value - before)
        before = value
        if whole:
            share_left *= 1 - 1 / (len(observed) - position)
    half = _DEVIATIONS * deviation(values) / sqrt(len(values))
    return Estimate(middle, middle - half, middle + half, source)


def rate(count: int, time: float, source: str) -> Estimate | None:
    """Estimate how often something happens in a unit of time, if each time is independent of the others."""
    if time <= 0:
        return None
    half = _DEVIATIONS * sqrt(count) / time
    return Estimate(count / time, max(0.0, count / time - half), count / time + half, source)


def deviation(values: Sequence[float]) -> float:
    """Return the standard deviation of a sample; 0 for fewer than two values."""
    if len(values) < 2:
        return 0.0
    middle = sum(values) / len(values)
    return sqrt(sum((each - middle) ** 2 for each in values) / (len(values) - 1))


def spread(values: Sequence[float]) -> float:
    """Return the standard deviation of the logarithms of positive values."""
    return deviation([log(each) for each in values if each > 0])
