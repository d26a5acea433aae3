"""What the planner is to reach, what it reached, and what no policy can reach."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import log2

from benchmarks.scheduling.cells import Cell
from benchmarks.scheduling.grid import Measured, mean_ratio, measure, saturated
from benchmarks.scheduling.policies import ORACLE, OURS
from benchmarks.scheduling.scenarios import runs_per_landing, simulate_all
from bot.cli.replay.replays import REFERENCE
from queue_engine.planner.trains.plan import entropy

FRESH_SEEDS = (101, 102)
"""Seeds that no constant of the planner was chosen with."""
TUNING_SEEDS = (1,)
"""Seeds that its constants were looked at with."""

FLAKY = Cell(2.5, 30, 0.1, 0.27, 4)
"""The design names 60 pull requests a day, and no duration."""
CONFLICTING = Cell(40, 10, 0.1, 0.02, 16, 0.034)
"""The design names no duration. Runs of 30 minutes would need 17 slots by information alone, and there are 16."""

Sample = tuple[Measured, Measured, Measured]
"""Ours, the oracle and the reference in one cell by one seed."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure with what it must be and what it should be."""

    name: str
    value: float
    must: float
    ambitious: float
    bound: float
    """What no policy betters: by the information in an outcome, or with the oracle, which knows every outcome."""
    at_most: bool = False
    """Whether less is better."""

    def reached(self, wanted: float) -> bool:
        """Whether the value is as good as this."""
        return self.value <= wanted if self.at_most else self.value >= wanted

    @property
    def missed(self) -> bool:
        """Whether not even what must be was reached."""
        return not self.reached(self.must)

    @property
    def possible(self) -> bool:
        """Whether the bound leaves room for what must be: then a miss is the planner's."""
        return self.bound <= self.must if self.at_most else self.bound >= self.must

    @property
    def verdict(self) -> str:
        """The goal's outcome in a word, with the bound where it is missed."""
        if self.missed:
            return f"{'MISSED' if self.possible else 'out of reach'}, bound {self.bound:.2f}"
        return "ambitious" if self.reached(self.ambitious) else "must"


def samples(cells: Sequence[Cell], seeds: Sequence[int], pulls: int) -> list[Sample]:
    """Simulate the three policies that the goals compare."""
    return [
        (measure(OURS, cell, seed, pulls), measure(ORACLE, cell, seed, pulls), measure(REFERENCE, cell, seed, pulls))
        for cell in cells
        for seed in seeds
    ]


def goals(found: Sequence[Sample], seeds: Sequence[int], pulls: int, scenarios: int) -> list[Goal]:
    """Judge the samples, and what they do not show: capacity, conflicts as at Uber, flakes, scenarios."""
    landed = sum(ours.outcome.landed for ours, _, _ in found)
    return [
        *_waits(found),
        Goal("throughput kept of the oracle's", _over(found, "per_hour"), 0.97, 0.99, bound=1),
        *(
            Goal(
                f"share of the entropy bound when saturated, p 10 %, C {slots}",
                sum(saturated(OURS, slots, seed, 2 * pulls) for seed in seeds) / len(seeds),
                must,
                ambitious,
                bound=1,
            )
            for slots, must, ambitious in ((1, 0.9, 0.97), (4, 0.7, 0.85), (16, 0.65, 0.8))
        ),
        Goal(
            "innocents ejected per 100 landings",
            100 * sum(ours.outcome.innocents for ours, _, _ in found) / max(1, landed),
            0.2,
            0.05,
            bound=0,
            at_most=True,
        ),
        Goal(
            "conflict rate 0.034, C 16, 40 per hour, CI 10 min: p95 minutes",
            sum(measure(OURS, CONFLICTING, seed, pulls).minutes(0.95) for seed in seeds) / len(seeds),
            400,
            200,
            bound=sum(measure(ORACLE, CONFLICTING, seed, pulls).minutes(0.95) for seed in seeds) / len(seeds),
            at_most=True,
        ),
        Goal("red base", sum(ours.outcome.red for ours, _, _ in found), 0, 0, 0, at_most=True),
        Goal("unresolved", sum(ours.outcome.unresolved for ours, _, _ in found), 0, 0, 0, at_most=True),
        _beside_one_by_one(range(seeds[0], seeds[0] + _QUEUES)),
        *_of_scenarios(range(seeds[0] * 10**6, seeds[0] * 10**6 + scenarios)),
        *_with_flakes(seeds, pulls),
    ]


_QUEUES = 20
"""How many queues a mean of costs is over."""


def _beside_one_by_one(seeds: Sequence[int]) -> Goal:
    costs = [
        (*runs_per_landing(40, slots, share, seeds, pairs=pairs), entropy(share) / (1 - share))
        for slots, share, pairs in product((1, 2, 4, 8), (0.02, 0.05, 0.1, 0.15, 0.2), (False, True))
    ]
    bound = max(needed / others for _, others, needed in costs)
    name = "40 queued at once, 2 to 20 % ejected, pairs too, C 1 to 8: most runs per landing over one by one's"
    return Goal(name, max(ours / others for ours, others, _ in costs), 1, 0.9, bound, at_most=True)


def _of_scenarios(seeds: Sequence[int]) -> list[Goal]:
    summary = simulate_all(seeds)
    figures = {
        "red base": summary.red,
        "unresolved": summary.unresolved,
        "unending": len(summary.unending),
        "ejected although green, without flakes": summary.wrong,
    }
    return [
        Goal(f"{len(seeds):,} scenarios with pairs and triples: {name}", value, 0, 0, 0, at_most=True)
        for name, value in figures.items()
    ]


def _with_flakes(seeds: Sequence[int], pulls: int) -> list[Goal]:
    ours = [measure(OURS, FLAKY, seed, pulls) for seed in seeds]
    oracles = [measure(ORACLE, FLAKY, seed, pulls) for seed in seeds]
    must = {"innocents_per_100": 3.0, "p95_over_oracle": 3.0, "runs_per_landing": 1.2}
    ambitious = {"innocents_per_100": 1.0, "p95_over_oracle": 2.0, "runs_per_landing": 0.9}
    cell = "flakes 27 %, failures 10 %, C 4, 60 a day, CI 30 min"
    return [replace(each, name=f"{cell}: {each.name}") for each in flaky_goals(FLAKY, ours, oracles, must, ambitious)]


def flaky_goals(
    cell: Cell,
    ours: Sequence[Measured],
    oracles: Sequence[Measured],
    must: Mapping[str, float],
    ambitious: Mapping[str, float],
) -> list[Goal]:
    """Judge how IMQ does in a cell whose runs flake, by those of three goals that are set."""
    landed = max(1, sum(len(each.outcome.order) for each in ours))
    reached = {
        "innocents_per_100": ("innocents per 100", 100 * sum(each.outcome.innocents for each in ours) / landed, 0.0),
        "p95_over_oracle": (
            "p95 over the oracle's",
            mean_ratio((a.minutes(0.95), b.minutes(0.95)) for a, b in zip(ours, oracles, strict=True)),
            1.0,
        ),
        "runs_per_landing": (
            "runs per landing",
            sum(each.outcome.runs for each in ours) / landed,
            runs_needed(cell, must.get("innocents_per_100", 0.0) / 100),
        ),
    }
    return [
        Goal(name, value, must[goal], ambitious[goal], bound, at_most=True)
        for goal, (name, value, bound) in reached.items()
        if goal in must
    ]


def runs_needed(cell: Cell, innocents: float) -> float:
    """Return the runs for each landing that any policy needs, by information alone.

    `innocents`: how many good pull requests it may eject for each that lands. What is not decided needs no run.
    """
    wrong = innocents / (1 + innocents)
    ejected = cell.rejected + (1 - cell.rejected) * wrong
    bits = entropy(ejected) - (1 - cell.rejected) * entropy(wrong)
    return bits / _bits_of_a_run(cell.flakes) / (1 - ejected)


def _bits_of_a_run(flakes: float) -> float:
    """Return the information of one run at most, which fails by itself so often: the capacity of a Z-channel."""
    if not flakes:
        return 1.0
    return log2(1 + (1 - flakes) * flakes ** (flakes / (1 - flakes)))


def _waits(found: Sequence[Sample]) -> list[Goal]:
    half, most = (
        [(ours.minutes(share), oracle.minutes(share), other.minutes(share)) for ours, oracle, other in found]
        for share in (0.5, 0.95)
    )
    return [
        Goal("p50 over the oracle's", mean_ratio((a, b) for a, b, _ in half), 1.7, 1.45, bound=1, at_most=True),
        Goal("p95 over the oracle's", mean_ratio((a, b) for a, b, _ in most), 2.6, 2.0, bound=1, at_most=True),
        *(
            Goal(
                f"{name} of {REFERENCE} over ours",
                mean_ratio((c, a) for a, _, c in waits),
                must,
                ambitious,
                bound=mean_ratio((c, b) for _, b, c in waits),
            )
            for name, waits, must, ambitious in (("p50", half, 3.0, 3.7), ("p95", most, 2.7, 3.6))
        ),
        Goal(
            f"worst cell: p95 of {REFERENCE} over ours",
            min(c / a for a, _, c in most if a),
            0.7,
            0.95,
            bound=min(c / b for _, b, c in most if b),
        ),
    ]


def _over(found: Sequence[Sample], figure: str) -> float:
    return mean_ratio((getattr(ours, figure), getattr(oracle, figure)) for ours, oracle, _ in found)
