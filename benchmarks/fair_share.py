"""People's time in queue beside fifty agents: the rule of the order, simulated on one queue that lands one by one.

Simulated time: the rule decides only the order, and a landing takes as long as its checks. `benchmarks.fair_share_bot`
has fewer of the same arrivals go through the whole bot.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from random import Random

from benchmarks.table import Row, percentile
from queue_engine.domain.policy import Policy
from queue_engine.rules.fair_share import earliest_key

LANDING = timedelta(minutes=10)
"""How long one landing takes."""
LOAD, HIGH_LOAD = 0.6, 0.8
"""The share of the queue's time that people's pull requests need. At 0.9 the ratio is 1.3 to 1.5, by the seed."""
AGENTS = 50
GOAL = 1.3

_MILLISECOND = timedelta(milliseconds=1)
_RECENT = 50


@dataclass(frozen=True, slots=True)
class Queued:
    """A simulated entry."""

    key: int
    seq: int
    arrived: int
    author: str


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
        clock += took
        # Those who came while it landed are in the queue before its agent comes back.
        while coming and coming[-1][0] <= clock:
            join(*coming.pop())
        if front.author.startswith("person"):
            found.append((clock - front.arrived) * _MILLISECOND)
        else:
            join(clock, front.author)
    return found


def ratios(seed: int, *, landings: int, load: float = LOAD) -> tuple[float, float]:
    """Return by how much fifty agents raise people's p95: with fair share, and by arrival alone."""
    by_people = arrivals(Random(seed), people=20, landings=landings, load=load)
    policy = Policy()
    alone, fair, first_come = (
        p95(waits(by_people, agents=agents, policy=each))
        for agents, each in ((0, policy), (AGENTS, policy), (AGENTS, replace(policy, fair_share=False)))
    )
    return fair / alone, first_come / alone


async def fair_share_row(*, quick: bool, seed: int) -> list[Row]:
    """By how much fifty agents raise people's p95, against the order by arrival alone, at two loads."""
    return [_row(load, seed, landings=200 if quick else 2000) for load in (LOAD, HIGH_LOAD)]


def _row(load: float, seed: int, *, landings: int) -> Row:
    fair, first_come = ratios(seed, landings=landings, load=load)
    return Row(
        f"fair share, load {load:.0%}",
        f"people's p95 in a queue with {AGENTS} agents, to that without",
        f"{fair:.2f} x",
        fair,
        f"at most {GOAL} x",
        fair <= GOAL,
        f"by arrival alone: {first_come:.1f} x",
        first_come,
        f"simulated: landings of {LANDING}, people need {load:.0%} of them",
    )


def p95(values: Sequence[timedelta]) -> float:
    return percentile([each.total_seconds() for each in values], 0.95)
