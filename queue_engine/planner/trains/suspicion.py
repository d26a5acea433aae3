"""Suspicion: the chance of each member to make a run fail, by the rates of the queue and the runs that failed."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import prod

from queue_engine.planner.trains.model import FailingRun, Trains

_SUREST = 0.99999
"""No evidence is beyond doubt: a chance of 1 would never fall again."""
_HEAD_FAILS = 0.9
"""The least chance of a member whose own head fails a required check, until a run with it passes."""
_EVEN = 0.5


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the runs that failed say of members, and of contents."""

    chances: Mapping[int, float]
    """Of each queued member, to make a run fail."""
    unexplained: Mapping[FailingRun, float]
    """The failed runs that contain no smaller one, oldest first, with the chance that each of them flaked."""
    failed_on_base: frozenset[frozenset[int]]
    """Contents whose very tree has failed."""

    def good(self, members: Iterable[int]) -> float:
        """Return the chance that none of the members makes a run fail, alone or together."""
        content = frozenset(members)
        chance = _all_good(content, self.chances)
        for failed, flaked in self.unexplained.items():
            if failed.content <= content:
                chance = min(chance, flaked * _all_good(content - failed.content, self.chances))
        return chance

    def foretells(self, members: Iterable[int]) -> bool:
        """Whether a run of these would show nothing new: it failed, or it contains what failed and hardly flaked."""
        content = frozenset(members)
        return content in self.failed_on_base or any(
            failed.content <= content and flaked < _EVEN for failed, flaked in self.unexplained.items()
        )


def weigh(trains: Trains) -> Evidence:
    """Return what the failed runs say.

    A failed run raises its suspects by Bayes' rule, as if the rest of them were independent of it. That is exact for
    one failed run. Of several that overlap, the largest is applied first, so that the narrower one has the last word.
    One that contains a smaller one is explained by it, and says nothing of its other suspects.
    """
    chances = {
        each.id: max(trains.estimates.chance(each), _HEAD_FAILS if each.head_fails and not each.qualified else 0.0)
        for each in trains.queue
    }
    flaked = dict[FailingRun, float]()
    for failed in sorted(trains.failures, key=lambda failed: -len(failed.suspects)):
        within = [each for each in trains.failures if each.content < failed.content]
        flakes = trains.flakes_of(failed).in_a_row(failed.times)
        good = _all_good(failed.suspects, chances)
        fails = 1 - (1 - flakes) * good
        if not within:
            flaked[failed] = flakes * good / fails
        explaining = frozenset[int]().union(*(each.content for each in within)) if within else failed.suspects
        for member in failed.suspects & explaining:
            chances[member] = min(chances[member] / fails, _SUREST)
    return Evidence(
        chances,
        {each: flaked[each] for each in trains.failures if each in flaked},
        frozenset(each.content for each in trains.failures if each.on_base),
    )


def _all_good(members: Iterable[int], chances: Mapping[int, float]) -> float:
    """Return the chance that none of the members makes a run fail by itself; one that was ejected does."""
    return prod(1 - chances.get(each, 1.0) for each in members)
