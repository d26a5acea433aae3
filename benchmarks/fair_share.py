"""People's time in queue beside fifty agents: the rule of the order, simulated on one queue that lands one by one.

Simulated time: the rule decides only the order, and a landing takes as long as its checks. `benchmarks.agents` has
fewer go through the whole bot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from itertools import chain
from random import Random

from benchmarks.sizes import Size
from benchmarks.table import Row, percentile
from queue_engine.config.model import Policy
from queue_engine.rules.priority import MOST_YIELDS, earliest_key, has_waited, yields_after

LANDING = timedelta(minutes=10)
"""How long one landing takes."""
LOW_LOAD, LOAD, HIGH_LOAD, HIGHEST_LOAD = 0.3, 0.6, 0.8, 0.9
"""The share of the queue's time that people's pull requests need."""
AGENTS = 50
GOAL = 1.1
SEEDS = 20
POLICY = Policy()

_MILLISECOND = timedelta(milliseconds=1)
_RECENT = 50
_RESAMPLES = 200


@dataclass(frozen=True, slots=True)
class Queued:
    """A simulated entry."""

    key: int
    seq: int
    arrived: int
    author: str
    yielded: int = 0
    """How often its run ended for another."""


def arrivals(random: Random, *, people: int, landings: int, load: float = LOAD) -> list[tuple[int, str]]:
    """Return when people queue pull requests, in milliseconds, and who does."""
    at, found = 0.0, []
    for _ in range(landings):
        at += random.expovariate(load / (LANDING / _MILLISECOND))
        found.append((round(at), f"person-{random.randrange(people)}"))
    return found


def waits(by_people: Sequence[tuple[int, str]], *, agents: int, policy: Policy) -> list[timedelta]:
    """Return the time in queue of each pull request of a person; each agent always has one in the queue."""
    took = LANDING // _MILLISECOND
    queue: list[Queued] = []
    found: list[timedelta] = []
    coming, clock, seq = list(reversed(by_people)), 0, 0
    durations = [LANDING] * _RECENT

    def join(at: int, author: str) -> None:
        nonlocal seq
        seq += 1
        keys = [(each.author, each.arrived, each.key - each.arrived) for each in queue]
        queue.append(Queued(earliest_key(author, keys, durations, policy, arrived=at), seq, at, author))

    for number in range(agents):
        join(0, f"agent-{number}[bot]")
    while coming or any(each.author.startswith("person") for each in queue):
        while coming and (coming[-1][0] <= clock or not queue):
            at, author = coming.pop()
            clock = max(clock, at)
            join(at, author)
        front = min(queue, key=lambda each: (each.key, each.seq))
        queue.remove(front)
        began, clock = clock, clock + took
        # Those who came while it landed are in the queue before its agent comes back.
        while coming and coming[-1][0] <= clock:
            join(*coming.pop())
            if policy.fair_share.enabled and _preempts(queue[-1], front, began):
                clock = queue[-1].arrived
                queue.append(replace(front, yielded=front.yielded + 1))
                break
        if queue and queue[-1].seq == front.seq:
            continue
        if front.author.startswith("person"):
            found.append((clock - front.arrived) * _MILLISECOND)
        else:
            join(clock, front.author)
    return found


def _preempts(joined: Queued, front: Queued, began: int) -> bool:
    """Whether the run of the front, which began then, ends for an entry that has joined."""
    delayed = front.author.startswith("agent") and front.key > front.arrived and front.yielded < MOST_YIELDS
    late = has_waited(front.arrived, front.key, joined.arrived)
    young = yields_after((joined.arrived - began) * _MILLISECOND / LANDING, late=late)
    return delayed and young and joined.key < front.key


def compared(
    seeds: Sequence[int], *, landings: int, load: float, policy: Policy = POLICY
) -> Sequence[tuple[Sequence[float], Sequence[float]]]:
    """Return for each seed the seconds that people's pull requests take, without agents and beside fifty."""
    found = []
    for seed in seeds:
        by_people = arrivals(Random(seed), people=20, landings=landings, load=load)
        alone, beside = (waits(by_people, agents=agents, policy=policy) for agents in (0, AGENTS))
        found.append((seconds(alone), seconds(beside)))
    return found


def ratio(pairs: Sequence[tuple[Sequence[float], Sequence[float]]]) -> float:
    """Return by how much agents raise people's p95 over all seeds together: one seed has a few bursts only."""
    alone, beside = (list(chain.from_iterable(each)) for each in zip(*pairs, strict=True))
    return percentile(beside, 0.95) / percentile(alone, 0.95)


def likely(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], random: Random) -> tuple[float, float]:
    """Return the interval of 95 % for `ratio`, by drawing the seeds again and again (bootstrap)."""
    drawn = sorted(ratio(random.choices(pairs, k=len(pairs))) for _ in range(_RESAMPLES))
    cut = _RESAMPLES // 40
    return drawn[cut], drawn[-1 - cut]


async def fair_share_row(size: Size, seed: int) -> list[Row]:
    """By how much fifty agents raise people's p95, against the order by arrival alone, at four loads."""
    count, landings = size.of((SEEDS, 1000), (4, 100), (1, 20))
    # The higher the load, the fewer and longer the times in which it waits.
    counts = {LOW_LOAD: count, LOAD: count, HIGH_LOAD: count, HIGHEST_LOAD: 10 * count}
    return [_row(load, range(seed, seed + many), landings) for load, many in counts.items()]


def _row(load: float, seeds: Sequence[int], landings: int) -> Row:
    pairs = compared(seeds, landings=landings, load=load)
    fair, (low, high) = ratio(pairs), likely(pairs, Random(seeds[0]))
    # Fewer seeds show as well that it is a multiple.
    first_come = ratio(
        compared(
            seeds[:4],
            landings=landings,
            load=load,
            policy=replace(POLICY, fair_share=replace(POLICY.fair_share, enabled=False)),
        )
    )
    return Row(
        f"fair share, load {load:.0%}",
        f"people's p95 in a queue with {AGENTS} agents, to that without; people need {load:.0%} of the landings",
        f"{fair:.2f} x, with 95 % from {low:.2f} to {high:.2f} ({len(seeds)} seeds)",
        fair,
        f"at most {GOAL} x",
        high <= GOAL,
        f"by arrival alone: {first_come:.1f} x",
        first_come,
        f"simulated: {landings} landings of {LANDING} for each seed. A pull request that joins late in the run of an "
        "agent waits for it",
    )


def seconds(values: Sequence[timedelta]) -> list[float]:
    """Return these durations in seconds, the shortest first."""
    return sorted(each.total_seconds() for each in values)


def p95(values: Sequence[timedelta]) -> float:
    """Return the 95th percentile in seconds."""
    return percentile(seconds(values), 0.95)
