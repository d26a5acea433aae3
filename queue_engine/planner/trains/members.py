"""Follow the entries of a queue as members of its trains, and show a plan those that it may choose. Pure."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from queue_engine.config.model import TrainRules
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import TrainSplit
from queue_engine.planner.trains.memory import Memory
from queue_engine.planner.trains.model import Member, Trains
from queue_engine.planner.trains.transitions import base_pushed, removed

MOST_RUNS = 16
"""How many runs `auto` lets be active at most."""


def follow_queue(memory: Memory, entries: Iterable[Entry], policy: TrainRules) -> Memory:
    """Return the memory with these entries as members, in the order in which they are to land, and the choices of runs.

    An entry that left, or has another head, is another member: what runs found out about the former one is void.
    """
    ordered = sorted(entries, key=lambda each: (not each.hotfix, each.rank, each.seq))
    heads = {each.number: (each.id, each.head) for each in ordered}
    trains = memory.trains
    for number, head in memory.heads.items():
        if heads.get(number) != head:
            trains = removed(trains, number)
    known = {each.id: each for each in trains.queue}
    queue = tuple(
        replace(known.get(each.number, Member(each.number, each.enqueued_at.timestamp())), preempts=_preempts(each))
        for each in ordered
    )
    conflicts = {
        number: others for number, others in memory.conflicts.items() if heads.get(number) == memory.heads.get(number)
    }
    trains = replace(
        trains,
        queue=queue,
        slots=slots(memory, policy),
        most=policy.max_size,
        splits_singly=policy.split is TrainSplit.SINGLE,
    )
    alone = {each.number: memory.tested_alone[each.number] for each in ordered if memory.tests_alone(each)}
    return replace(memory, trains=trains, heads=heads, conflicts={**conflicts}, tested_alone=alone)


def _preempts(entry: Entry) -> bool:
    return entry.hotfix and entry.preempts


def slots(memory: Memory, policy: TrainRules) -> int:
    """Return how many runs may be active: by `auto` one more than CI ran at once before."""
    return min(memory.most_at_once + 1, MOST_RUNS) if policy.runs is None else policy.runs


def visible(memory: Memory, free: Collection[int]) -> Trains:
    """Return the trains as a plan may see them: without members that are blocked, or that conflict with others.

    A member that did not merge onto others is tried again when one of them has landed or left.
    """
    trains = memory.trains
    queued = {each.id for each in trains.queue}
    queue = tuple(
        each
        for each in trains.queue
        if each.id in free and not _conflicts_with_all(memory.conflicts.get(each.id, ()), queued)
    )
    shown = {each.id for each in queue}
    failures = (replace(each, suspects=each.suspects & shown) for each in trains.failures)
    return replace(trains, queue=queue, failures=tuple(each for each in failures if each.suspects))


def ahead_of_tested_alone(memory: Memory, free: Collection[int]) -> frozenset[int]:
    """Return the members that trains may test now: those in runs, and those ahead of the first that is tested alone.

    A member that is tested alone is next once all ahead of it have landed or left, and no run is active.
    """
    trains = memory.trains
    found = {member for run in (*trains.runs, *trains.passed) for member in run.content}
    for each in trains.queue:
        if each.id in memory.tested_alone and each.id in free:
            break
        found.add(each.id)
    return frozenset(each for each in free if each in found and each not in memory.tested_alone)


def _conflicts_with_all(others: Sequence[int], queued: Collection[int]) -> bool:
    return bool(others) and all(other in queued for other in others)


def base_moved(memory: Memory, tip: str) -> Memory:
    """Return the memory after somebody else moved the base: no run extends it, and conflicts are tried again."""
    return replace(memory.with_tip(tip), trains=base_pushed(memory.trains), conflicts={})
