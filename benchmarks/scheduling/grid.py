"""The teams that policies are compared for, and what is measured of each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from math import exp, log

from benchmarks.scheduling.cells import Cell, DrawnTruth
from benchmarks.scheduling.policies import POLICIES, Make
from bot.cli.replay.simulation import Outcome, Simulation, quantile

UNLIMITED = 1000
"""Slots where a policy may start as many runs as it likes."""


@dataclass(frozen=True, slots=True)
class Measured:
    """One policy in one cell."""

    cell: Cell
    outcome: Outcome

    def minutes(self, share: float) -> float:
        """Return how long the pull requests that landed waited: this share of them no longer."""
        return quantile(self.outcome.landed_after, share)

    def rejected(self, share: float) -> float:
        """Return how long those that were ejected waited: this share of them no longer."""
        return quantile(self.outcome.rejected_after, share)

    @property
    def per_hour(self) -> float:
        """Landings an hour while pull requests arrive."""
        minutes = self.outcome.steady_minutes
        return 60 * self.outcome.steady / minutes if minutes else 0.0

    @property
    def runs_per_landing(self) -> float:
        """Runs, cancelled ones too, for each pull request that landed."""
        return self.outcome.runs / max(1, len(self.outcome.order))


def cells(full: bool) -> Iterator[Cell]:
    """Yield the grid's feasible cells; without `full` those with the least and the most flakes and no conflicts."""
    flakes, conflicts = ((0.0, 0.02, 0.05), (0.0, 0.01, 0.034)) if full else ((0.0, 0.02), (0.0,))
    for per_hour, minutes, bad, flaky, slots, conflict in product(
        (2, 10, 40, 100), (10, 30), (0.02, 0.1, 0.25), flakes, (1, 4, 16, UNLIMITED), conflicts
    ):
        cell = Cell(per_hour, minutes, bad, flaky, slots, conflict)
        if cell.feasible:
            yield cell


def extra_cells() -> Mapping[str, Cell]:
    """Return cells that the grid does not have."""
    return {
        "bursts (variance / mean 4)": Cell(10, 30, 0.1, 0.01, 4, burst=4.0),
        "durations vary (sigma 0.8)": Cell(10, 30, 0.1, 0.01, 4, sigma=0.8),
        "runs grow 2 % per pull request": Cell(10, 30, 0.1, 0.01, 4, growth=0.02),
        "10 % of the runs flake": Cell(10, 30, 0.1, 0.1, 4),
        "conflicts as at Uber": Cell(40, 10, 0.1, 0.02, 16, 0.034),
        "conflicts as at Uber, more than the slots can follow": Cell(40, 30, 0.1, 0.02, 16, 0.034),
        "few conflicts": Cell(10, 30, 0.1, 0.01, 4, 0.01),
    }


def measure(policy: str, cell: Cell, seed: int, pulls: int) -> Measured:
    """Simulate one policy of the benchmark in one cell."""
    return simulate(POLICIES[policy], cell, seed, pulls)


def simulate(make: Make, cell: Cell, seed: int, pulls: int) -> Measured:
    """Simulate a policy in one cell."""
    truth = DrawnTruth(cell, seed)
    return Measured(cell, Simulation(truth, make(truth), pulls).run())


def saturated(policy: str, slots: int, seed: int, pulls: int, bad: float = 0.1) -> float:
    """Return the share of the entropy bound that a policy reaches when all pull requests wait from the start."""
    cell = Cell(10, 30, bad, 0.0, slots)
    truth = DrawnTruth(cell, seed)
    outcome = Simulation(truth, POLICIES[policy](truth), pulls, at_once=True).run()
    share = len(truth.bad) / pulls
    return Cell(10, 30, share, 0.0, slots).entropy * pulls * cell.minutes / (outcome.span * slots)


def mean_ratio(pairs: Iterable[tuple[float, float]]) -> float:
    """Return the geometric mean of ratios, leaving out pairs without a value."""
    logs = [log(ours / theirs) for ours, theirs in pairs if ours > 0 and theirs > 0]
    return exp(sum(logs) / len(logs)) if logs else 0.0
