"""The teams that a simulation may stand for, and what is true of their pull requests, drawn by a seed."""

from collections.abc import Container
from dataclasses import dataclass
from random import Random

from bot.cli.replay.truth import CONCURRENT, Truth
from queue_engine.planner.trains.plan import entropy


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


class DrawnTruth(Truth):
    """The truth of a cell. Pull requests have random numbers of their own: all policies meet the same ones."""

    def __init__(self, cell: Cell, seed: int) -> None:
        """Draw by this seed."""
        super().__init__(seed, cell.slots, cell.minutes, cell.sigma, cell.flakes, cell.conflicts)
        self.cell = cell

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
            if other in waiting:
                self.may_break(other, pull)

    def duration(self, members: int) -> float:
        """Return the minutes that a run takes."""
        return super().duration(members) * (1 + self.cell.growth * members)
