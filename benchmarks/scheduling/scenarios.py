"""Short queues with members that are red alone, in pairs and in triples, simulated to their end by the bot's own plans.

The memory of plans is the bot's, and so is what it keeps of the results of trees.
"""

import heapq
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from random import Random

from queue_engine.planner.queue_plan import visible
from queue_engine.planner.trains.memory import (
    FailingChecks,
    Memory,
    cancelled,
    ejected_member,
    failed,
    failed_before,
    find_run,
    known_result,
    landed,
    passed,
    started,
)
from queue_engine.planner.trains.model import Member, Plan, TrainRun, Trains
from queue_engine.planner.trains.plan import plan

MOST_MEMBERS, MOST_SLOTS = 24, 4
_USUAL = 600.0
_STEPS = 300
"""More plans than any queue here needs between two outcomes."""
_RUNS_EACH = 8
"""More runs for each member than any queue here needs: a scenario with more does not end."""


class Unending(Exception):
    """A plan repeats itself, or nothing happens although members wait."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A queue whose members all wait from the start, and what is true of them."""

    members: int
    slots: int
    red: tuple[frozenset[int], ...]
    """Members, numbered from 1, that make a tree red once all of them are in it."""
    flakes: float = 0.0
    seed: int = 0

    def passes(self, tree: frozenset[int]) -> bool:
        """Whether a tree passes every honest run."""
        return not any(each <= tree for each in self.red)


@dataclass(slots=True)
class Ending:
    """What came of a scenario."""

    runs: int = 0
    landed: list[int] = field(default_factory=list)
    ejected: list[int] = field(default_factory=list)
    wrong: list[int] = field(default_factory=list)
    """Ejected, although green on all that had landed."""
    red: int = 0
    """Landings of a tree that does not pass."""
    unexplained: list[int] = field(default_factory=list)
    """Ejected without a failed run of their own tree on what had landed."""


def scenario_of(seed: int) -> Scenario:
    """Return a scenario with up to three red members, three red pairs and two red triples; half have no flakes."""
    dice = Random(f"story {seed}")
    members = dice.randint(1, MOST_MEMBERS)
    red = [
        frozenset(dice.sample(range(1, members + 1), size))
        for size, most in ((1, 3), (2, 3), (3, 2))
        for _ in range(dice.randint(0, most))
        if size <= members
    ]
    flakes = dice.choice((0.0, 0.0, 0.0, 0.02, 0.1, 0.27))
    return Scenario(members, dice.randint(1, MOST_SLOTS), tuple(red), flakes, seed)


def red_scenario(members: int, slots: int, share: float, seed: int, *, pairs: bool = False) -> Scenario:
    """Return a scenario in which this share of the members is to be ejected: alone, or one of each red pair."""
    size = 2 if pairs else 1
    chosen = Random(f"red {seed}").sample(range(1, members + 1), min(members, size * round(members * share)))
    return Scenario(
        members, slots, tuple(frozenset(chosen[i : i + size]) for i in range(0, len(chosen), size)), seed=seed
    )


def one_by_one(scenario: Scenario) -> Ending:
    """Return the ending where each member is tested alone on what has landed, and a second time after a failure."""
    dice, ending = Random(f"story {scenario.seed} runs"), Ending()
    for member in range(1, scenario.members + 1):
        good = scenario.passes(frozenset((*ending.landed, member)))
        ending.runs += 1
        passes = good and dice.random() >= scenario.flakes
        if not passes:
            ending.runs += 1
            passes = good and dice.random() >= scenario.flakes
        (ending.landed if passes else ending.ejected).append(member)
        if good and not passes:
            ending.wrong.append(member)
    return ending


def simulate(scenario: Scenario) -> Ending:
    """Return how a scenario ends with trains. Raises Unending."""
    return _Simulation(scenario).simulate()


@dataclass(frozen=True, slots=True)
class Summary:
    """What came of many scenarios."""

    unending: tuple[int, ...]
    """The seeds of scenarios that did not end."""
    red: int
    unresolved: int
    """Members that neither landed nor were ejected with a failed run that explains it."""
    wrong: int
    """Green members that were ejected where no run flakes."""
    most_runs: float
    """The most runs for each member of one scenario."""


def simulate_all(seeds: Iterable[int], slots: int | None = None) -> Summary:
    """Simulate the scenarios of these seeds, with as many slots as each has, or with so many."""
    unending: list[int] = []
    red = unresolved = wrong = 0
    most = 0.0
    for seed in seeds:
        scenario = scenario_of(seed)
        scenario = scenario if slots is None else replace(scenario, slots=slots)
        try:
            ending = simulate(scenario)
        except Unending:
            unending.append(seed)
            continue
        red += ending.red
        unresolved += scenario.members - len({*ending.landed, *ending.ejected}) + len(ending.unexplained)
        wrong += 0 if scenario.flakes else len(ending.wrong)
        most = max(most, ending.runs / scenario.members)
    return Summary(tuple(unending), red, unresolved, wrong, most)


def runs_per_landing(
    members: int, slots: int, share: float, seeds: Iterable[int], *, pairs: bool
) -> tuple[float, float]:
    """Return CI runs for each landing with trains, and one by one."""
    endings = [
        (simulate(scenario), one_by_one(scenario))
        for scenario in (red_scenario(members, slots, share, seed, pairs=pairs) for seed in seeds)
    ]
    trains, others = ([ending[place] for ending in endings] for place in (0, 1))
    return _per_landing(trains), _per_landing(others)


def _per_landing(endings: Iterable[Ending]) -> float:
    found = list(endings)
    return sum(each.runs for each in found) / max(1, sum(len(each.landed) for each in found))


class _Simulation:
    """Carries out plans for one scenario."""

    def __init__(self, scenario: Scenario) -> None:
        queue = tuple(Member(number, 0.0) for number in range(1, scenario.members + 1))
        self._scenario, self._ending = scenario, Ending()
        self._memory = Memory(trains=Trains(scenario.slots, _USUAL, queue))
        self._dice = Random(f"story {scenario.seed} runs")
        self._now = 0.0
        self._started = 0
        self._active: list[tuple[float, int]] = []
        self._trees: dict[int, frozenset[int]] = {}

    def simulate(self) -> Ending:
        self._settle()
        while self._active:
            self._now, number = heapq.heappop(self._active)
            if (run := find_run(self._memory.trains, number)) is not None:
                good = self._scenario.passes(self._trees[number]) and self._dice.random() >= self._scenario.flakes
                self._end(run, good)
                self._settle()
        if self._memory.trains.queue:
            raise Unending(f"nothing happens: {self._memory.trains}")
        return self._ending

    def _settle(self) -> None:
        for _ in range(_STEPS):
            queue = self._memory.trains.queue
            made = plan(visible(self._memory, {each.id for each in queue}), self._now)
            if made == Plan():
                return
            self._carry_out(made)
        raise Unending(f"the same plan again: {made}")

    def _carry_out(self, made: Plan) -> None:
        """Do the first thing that a plan says, as a pass of the bot does."""
        if made.land is not None:
            self._land(made.land)
        elif made.eject:
            self._eject(made.eject[0])
        elif made.cancel:
            self._memory = cancelled(self._memory, made.cancel[0])
        else:
            self._started += 1
            self._memory = started(self._memory, self._started, made.start[0], self._now)
            run = find_run(self._memory.trains, self._started)
            assert run is not None
            self._begin(run)

    def _begin(self, run: TrainRun) -> None:
        """Run CI, unless the tree has a result that counts."""
        tree = frozenset((*self._ending.landed, *run.content))
        self._trees[run.id] = tree
        known = known_result(self._memory, run, _key(tree))
        if known is not None:
            self._memory = (
                passed(self._memory, run, _key(tree), self._now)
                if known
                else failed_before(self._memory, run, _key(tree))
            )
            return
        self._ending.runs += 1
        if self._ending.runs > _RUNS_EACH * self._scenario.members:
            raise Unending(f"{self._ending.runs} runs")
        heapq.heappush(self._active, (self._now + _USUAL * self._dice.lognormvariate(-0.045, 0.3), run.id))

    def _end(self, run: TrainRun, good: bool) -> None:
        key = _key(self._trees[run.id])
        self._memory = (
            passed(self._memory, run, key, self._now, seconds=_USUAL)
            if good
            else failed(self._memory, run, key, FailingChecks(run.id, run.content, ()))
        )

    def _land(self, run: TrainRun) -> None:
        assert run.extends_base
        tree = frozenset((*self._ending.landed, *run.content))
        assert self._trees[run.id] == tree, "only what was tested lands"
        self._ending.red += not self._scenario.passes(tree)
        self._ending.landed += run.content
        self._memory = landed(self._memory, run, f"tip {self._started}", ())

    def _eject(self, member: int) -> None:
        self._ending.ejected.append(member)
        if self._scenario.passes(frozenset((*self._ending.landed, member))):
            self._ending.wrong.append(member)
        if self._memory.failure_of(member) is None:
            self._ending.unexplained.append(member)
        self._memory = ejected_member(self._memory, member)


def _key(tree: Iterable[int]) -> str:
    return " ".join(map(str, sorted(tree)))
