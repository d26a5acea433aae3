"""People's trains beside fifty agents, of whose pull requests one in four fails: the planner, simulated.

Each agent always has one pull request in the queue. Both policies meet the same people, whose pull requests fail as
often as in other measures.
"""

import heapq
from collections.abc import Container
from dataclasses import dataclass, field, replace
from datetime import timedelta
from itertools import chain
from random import Random

from benchmarks.fair_share import AGENTS, GOAL, POLICY, likely, ratio
from benchmarks.scheduling.cells import Cell, DrawnTruth
from benchmarks.sizes import Size
from benchmarks.table import Row, percentile
from bot.cli.replay.policies import TrainPolicy
from bot.cli.replay.simulation import Simulation
from queue_engine.planner.trains.model import Member
from queue_engine.rules.priority import earliest_key

_CELLS = [Cell(per_hour, 10, 0.1, 0.02, slots) for slots, per_hour in ((1, 2), (1, 6), (4, 6), (4, 24))]
_FAILS = 0.25
"""Share of the pull requests of agents that fail."""
_MINUTE = 60_000
_PEOPLE = 20


class _Truth(DrawnTruth):
    """The first `people` pull requests are those of people."""

    def __init__(self, cell: Cell, seed: int, people: int) -> None:
        super().__init__(cell, seed)
        self.people = people
        self._of_agents = DrawnTruth(replace(cell, bad=_FAILS), seed)

    def arrivals(self, count: int) -> list[float]:
        return super().arrivals(self.people) + [0.0] * (count - self.people)

    def arrive(self, pull: int, waiting: Container[int]) -> None:
        drawn = self if pull < self.people else self._of_agents
        DrawnTruth.arrive(drawn, pull, waiting)
        self.bad |= drawn.bad


class _Trains(TrainPolicy):
    """IMQ's trains in the order of IMQ's keys; `yields`: by the rule for agents."""

    def __init__(self, truth: _Truth, *, yields: bool) -> None:
        super().__init__(truth.slots, truth.minutes)
        self._people, self._yields = truth.people, yields
        self._keys: dict[int, tuple[str, int, int]] = {}
        self.runs: dict[int, tuple[int, ...]] = {}
        self.failed = self.ended = 0

    def arrived(self, pull: int, now: float) -> None:
        of_agent = pull >= self._people
        author, at = f"agent-{pull}[bot]" if of_agent else f"person-{pull % _PEOPLE}", round(now * _MINUTE)
        queued = [self._keys[each.id] for each in self.trains.queue]
        usual = [timedelta(minutes=self.trains.usual_seconds)]
        key = earliest_key(author, queued, usual, POLICY, arrived=at)
        self._keys[pull] = author, at, key - at
        member = Member(pull, now, yields_until=key / _MINUTE if self._yields and of_agent else None)
        queue = sorted((*self.trains.queue, member), key=lambda each: sum(self._keys[each.id][1:]))
        self.trains = replace(self.trains, queue=tuple(queue))

    def started(self, run: int, content: tuple[int, ...], now: float) -> None:
        super().started(run, content, now)
        self.runs[run] = content

    def finished(self, run: int, passed: bool, now: float) -> None:
        of_people = any(each < self._people for each in self.runs[run])
        self.ended, self.failed = self.ended + of_people, self.failed + (of_people and not passed)
        super().finished(run, passed, now)


class _Simulation(Simulation):
    """An agent queues the next pull request as soon as one has left; the end is that of people's."""

    def __init__(self, truth: _Truth, policy: _Trains, agents: int) -> None:
        super().__init__(truth, policy, truth.people + agents, warm=0)
        self._people, self._next, self._order = truth.people, truth.people + agents, 1_000_000
        self.waits: list[float] = []
        self.of_agents = 0
        self._left = truth.people

    def _land(self, number: int) -> None:
        since = dict(self._since)
        before = len(self.outcome.order)
        super()._land(number)
        for each in self.outcome.order[before:]:
            if each < self._people:
                self.waits.append(self.now - since[each])
            self.of_agents += each >= self._people
            self._resolve(each)

    def _eject(self, pull: int) -> None:
        super()._eject(pull)
        self._resolve(pull)

    def _resolve(self, pull: int) -> None:
        if pull < self._people:
            self._left -= 1
            if not self._left:
                self._end = self.now
        else:
            heapq.heappush(self._events, (self.now, self._next, "arrival", self._next))
            self._next += 1


@dataclass
class Found:
    """What came of the same people in several simulations."""

    waits: list[list[float]] = field(default_factory=list)
    """Minutes from queueing to landing, for each simulation."""
    runs: int = 0
    """Runs with a pull request of a person that ended."""
    failed: int = 0
    of_agents: int = 0
    """Landings of agents."""

    @property
    def p95(self) -> float:
        """The 95th percentile of the waits."""
        return percentile([*chain.from_iterable(self.waits)], 0.95)


def beside(cell: Cell, seeds: range, people: int, *, agents: int = AGENTS, yields: bool = True) -> Found:
    """Simulate people's pull requests beside so many agents."""
    found = Found()
    for seed in seeds:
        truth = _Truth(cell, seed, people)
        policy = _Trains(truth, yields=yields)
        simulation = _Simulation(truth, policy, agents)
        simulation.run()
        found.waits.append(simulation.waits)
        found.runs, found.failed = found.runs + policy.ended, found.failed + policy.failed
        found.of_agents += simulation.of_agents
    return found


async def train_share_row(size: Size, seed: int) -> list[Row]:
    """By how much fifty agents raise people's p95 in trains, and what their pull requests cost people's runs."""
    count, people = size.of((10, 300), (3, 100), (1, 20))
    return [_row(cell, range(seed, seed + count), people) for cell in _CELLS]


def _row(cell: Cell, seeds: range, people: int) -> Row:
    alone = beside(cell, seeds, people, agents=0)
    fair, mixed = (beside(cell, seeds, people, yields=yields) for yields in (True, False))
    pairs = [*zip(alone.waits, fair.waits, strict=True)]
    found, (low, high) = ratio(pairs), likely(pairs, Random(seeds[0]))
    more = fair.runs / alone.runs
    return Row(
        f"agents in trains, {cell.per_hour} an hour, {cell.slots} at once",
        f"people's p95 in trains beside {AGENTS} agents, to that without",
        f"{found:.2f} x, with 95 % from {low:.2f} to {high:.2f}; "
        f"{more:.2f} x as many runs of people, of which {fair.failed / fair.runs:.0%} failed "
        f"({alone.failed / alone.runs:.0%} without agents)",
        found,
        f"at most {GOAL} x",
        found <= GOAL,
        f"in one order with people: {mixed.p95 / alone.p95:.2f} x, {mixed.failed / mixed.runs:.0%} failed",
        mixed.p95 / alone.p95,
        f"simulated: {people} pull requests of people for each of {len(seeds)} seeds; agents landed {fair.of_agents:,} "
        f"and, in one order, {mixed.of_agents:,}",
    )
