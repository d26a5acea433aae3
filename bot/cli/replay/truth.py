"""Truth that no policy may see: bad pull requests, pairs that break together, how long runs take, which flake."""

from abc import ABC, abstractmethod
from collections.abc import Container, Iterable, Sequence
from random import Random

CONCURRENT = 8
"""Changes before a change, and as many after it, that were written at the same time: 16 in all, as in Uber's figure.

How long they wait in the queue makes no further conflicts.
"""


class Truth(ABC):
    """Outcomes of one simulation."""

    def __init__(
        self, seed: int, slots: int, minutes: float, sigma: float = 0.0, flakes: float = 0.0, breaking: float = 0.0
    ) -> None:
        """Set the figures of the team.

        Args:
            seed: The same one gives the same outcomes.
            slots: Runs that may be active at once.
            minutes: How long a run takes, on average.
            sigma: Standard deviation of the logarithm of a run's duration.
            flakes: Share of runs that fail although their tree is good.
            breaking: The chance that two concurrent pull requests break together.
        """
        self.seed, self.slots, self.minutes = seed, slots, minutes
        self.bad: set[int] = set()
        self.conflicts: dict[int, set[int]] = {}
        self._sigma, self._flakes, self._breaking = sigma, flakes, breaking
        self._runs = Random(f"{seed} runs")

    @abstractmethod
    def arrivals(self, count: int) -> list[float]:
        """Return when each pull request arrives, in minutes."""

    @abstractmethod
    def arrive(self, pull: int, waiting: Container[int]) -> None:
        """Decide what a pull request is, given those that wait already."""

    def may_break(self, other: int, pull: int) -> None:
        """Decide whether two pull requests break together."""
        if Random(f"{self.seed} pair {other} {pull}").random() < self._breaking:
            self.conflicts.setdefault(pull, set()).add(other)
            self.conflicts.setdefault(other, set()).add(pull)

    def good(self, content: Iterable[int], landed: set[int]) -> bool:
        """Whether a tree passes every honest run: pull requests on top of those that landed."""
        members = set(content)
        if members & self.bad:
            return False
        return not any(self.conflicts.get(each, frozenset()) & (members | landed) for each in members)

    def outcome(self, content: Sequence[int], landed: set[int]) -> tuple[bool, float]:
        """Return whether a run of these on what landed passes, and how many minutes it takes."""
        passes = self.good(content, landed) and self._runs.random() >= self._flakes
        return passes, self.duration(len(content))

    def duration(self, members: int) -> float:
        """Return the minutes that a run takes."""
        return self.minutes * self._runs.lognormvariate(-(self._sigma**2) / 2, self._sigma)
