"""Truth that no policy may see: bad pull requests, pairs that break together, how long runs take, which flake."""

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass, field
from random import Random

from queue_engine.planner.trains.plan import entropy

CONCURRENT = 8
"""Changes before a change, and as many after it, that were written at the same time: 16 in all, as in Uber's figure.

How long they wait in the queue makes no further conflicts.
"""


@dataclass(frozen=True, slots=True)
class Cell:
    """The team that a simulation stands for."""

    per_hour: float
    """Pull requests that arrive."""
    minutes: float
    """How long a run takes, on average."""
    bad: float
    """Share of pull requests that fail."""
    flakes: float
    """Share of runs that fail although their tree is good."""
    slots: int
    """Runs that may be active at once."""
    conflicts: float = 0.0
    """The chance that two concurrent pull requests break together; 0.034 makes 40 % of them conflict with one of 16."""
    sigma: float = 0.3
    """Of the logarithm of a run's duration."""
    burst: float = 1.0
    """Variance of arrivals over their mean, by bursts of geometric size."""
    growth: float = 0.0
    """By which share a run grows for each pull request in it."""

    @property
    def rejected(self) -> float:
        """Share of pull requests that any policy ejects: bad ones, and good ones that conflict with a landed one."""
        share = self.bad
        for _ in range(20):
            share = 1 - (1 - self.bad) * (1 - self.conflicts) ** (CONCURRENT * (1 - share))
        return share

    @property
    def entropy(self) -> float:
        """Runs per pull request that any policy needs, by information alone."""
        return entropy(self.rejected)

    @property
    def load(self) -> float:
        """Slots that the arrivals need by information alone, over the slots that there are."""
        return self.per_hour * self.entropy * self.minutes / 60 / self.slots

    @property
    def feasible(self) -> bool:
        """Whether a policy near the bound of information can follow the arrivals."""
        return self.load <= 0.8


@dataclass(slots=True)
class Truth:
    """Outcomes of one simulation. Pull requests have random numbers of their own: all policies meet the same ones."""

    cell: Cell
    seed: int
    bad: set[int] = field(default_factory=set)
    conflicts: dict[int, set[int]] = field(default_factory=dict)
    _runs: Random = field(init=False)

    def __post_init__(self) -> None:
        self._runs = Random(f"{self.seed} runs")

    def arrivals(self, count: int) -> list[float]:
        """Return when each pull request arrives, in minutes."""
        dice = Random(f"{self.seed} arrivals")
        size = (self.cell.burst + 1) / 2
        times: list[float] = []
        now = 0.0
        while len(times) < count:
            now += dice.expovariate(self.cell.per_hour / 60 / size)
            times.append(now)
            while len(times) < count and dice.random() < 1 - 1 / size:
                times.append(now)
        return times

    def arrive(self, pull: int, waiting: Container[int]) -> None:
        """Decide what a pull request is, given those that wait already."""
        dice = Random(f"{self.seed} pull {pull}")
        if dice.random() < self.cell.bad:
            self.bad.add(pull)
        if not self.cell.conflicts:
            return
        for other in range(max(0, pull - CONCURRENT), pull):
            if other in waiting and Random(f"{self.seed} pair {other} {pull}").random() < self.cell.conflicts:
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
        passes = self.good(content, landed) and not self.flaked()
        return passes, self.duration(len(content))

    def duration(self, members: int) -> float:
        """Return the minutes that a run takes."""
        cell = self.cell
        mean = cell.minutes * (1 + cell.growth * members)
        return mean * self._runs.lognormvariate(-(cell.sigma**2) / 2, cell.sigma)

    def flaked(self) -> bool:
        """Whether a run of a good tree fails all the same."""
        return self._runs.random() < self.cell.flakes
