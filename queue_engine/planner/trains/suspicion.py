"""Suspicion: the chance of each member to make a run fail, by the rates of the queue and the runs that failed."""

from collections.abc import Iterable, Mapping
from math import prod

from queue_engine.planner.trains.model import Trains

_SUREST = 0.99999
"""No evidence is beyond doubt: a chance of 1 would never fall again."""


def suspicions(trains: Trains) -> dict[int, float]:
    """Return each queued member's chance to make a run fail.

    A failed run raises its suspects by Bayes' rule, as if the rest of them were independent of it. That is exact for
    one failed run. Of several that overlap, the largest is applied first, so that the narrower one has the last word.
    """
    chances = {each.id: trains.estimates.chance(each.qualified) for each in trains.queue}
    flakes = trains.estimates.flake_chance
    for failed in sorted(trains.failures, key=lambda failed: -len(failed.suspects)):
        fails = 1 - (1 - flakes) * all_good(failed.suspects, chances)
        for member in failed.suspects:
            chances[member] = min(chances[member] / fails, _SUREST)
    return chances


def all_good(members: Iterable[int], chances: Mapping[int, float]) -> float:
    """Return the chance that none of the members makes a run fail; one that was ejected does."""
    return prod(1 - chances.get(each, 1.0) for each in members)
