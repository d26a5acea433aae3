"""How long the planner of trains takes for a long queue: it runs within a pass, so it may not delay others."""

import time
from statistics import median

from benchmarks.sizes import Size
from benchmarks.table import Row, seconds_text
from queue_engine.planner.trains.model import FailingRun, Member, TrainRun, Trains
from queue_engine.planner.trains.plan import plan

_MEMBERS, _SLOTS = 200, 16
_GOAL_SECONDS = 0.005
_USUAL_SECONDS = 600.0
_NOW = 1_000.0


async def planning_row(size: Size, seed: int) -> list[Row]:
    """Time one plan over a queue whose members qualified, failed and wait, with free slots and with none."""
    del seed
    trains = _long_queue()
    empty = Trains(_SLOTS, _USUAL_SECONDS, trains.queue[:1])
    repeats = size.of(200, 5, 1)
    filled, none = _seconds(trains, repeats), _seconds(_with_runs(trains), repeats)
    one = _seconds(empty, repeats)
    return [
        Row(
            name="planning",
            what=f"CPU time of one plan over {_MEMBERS} entries that fills {_SLOTS} runs",
            measured=f"median {seconds_text(filled)}; {seconds_text(none)} while all runs are taken",
            value=filled,
            goal="< 5 ms",
            met=filled < _GOAL_SECONDS,
            reference=f"a queue of one entry: {seconds_text(one)}",
            reference_value=one,
        )
    ]


def _long_queue() -> Trains:
    """Return a queue in which every fifth entry qualified, and four runs have failed."""
    queue = tuple(Member(each, float(each), float(each) if each % 5 == 0 else None) for each in range(1, _MEMBERS + 1))
    groups = (range(10, 18), range(20, 24), range(30, 62), range(12, 14))
    failures = tuple(FailingRun(frozenset(each), frozenset(each)) for each in groups)
    return Trains(_SLOTS, _USUAL_SECONDS, queue, failures=failures)


def _with_runs(trains: Trains) -> Trains:
    """Return it with the runs that a plan starts."""
    for number, new in enumerate(plan(trains, _NOW).start, 1):
        trains = trains.with_run(TrainRun(number, new.content, new.tested, _NOW))
    return trains


def _seconds(trains: Trains, repeats: int) -> float:
    """Return the median CPU time of a plan."""
    took = []
    for _ in range(repeats):
        began = time.process_time()
        plan(trains, _NOW)
        took.append(time.process_time() - began)
    return median(took)
