"""Load what trains saved in a period, by the events of their runs."""

from collections.abc import Iterable
from dataclasses import dataclass

from queue_engine.core.read_model import serialized
from queue_engine.domain.run import RUN_EVENTS, RUN_PASSED, RUN_STARTED
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.store import Transaction
from queue_engine.store.departures import day_of
from queue_engine.store.statistics import DepartureQuery

_MOST_EVENTS = 5_000
"""Events of one queue that are read, the newest."""


@dataclass(frozen=True, slots=True)
class TrainStatistics:
    """The CI runs of trains in a period, and how many pull requests landed by them."""

    runs: int
    landed: int
    run_seconds: float | None
    """How long a run that passed took on average, from its start to its last check."""

    @serialized
    def runs_saved(self) -> int:
        """How many runs fewer than one for each landing; none if it took more."""
        return max(0, self.landed - self.runs)

    @serialized
    def seconds_saved(self) -> float | None:
        """How long the saved runs would have taken."""
        return None if self.run_seconds is None else self.runs_saved * self.run_seconds


async def load_train_statistics(tx: Transaction, query: DepartureQuery) -> TrainStatistics | None:
    """Load the sums of the queues that have trains; None where none has."""
    found: list[TimelineEvent] = []
    queues = [each for each in await tx.queues.all() if each.in_trains]
    for queue in queues:
        repository, branch = queue.repository.id, queue.base_branch
        if query.repository_ids is not None and repository not in query.repository_ids:
            continue
        if query.base_branch not in (None, branch):
            continue
        found += await tx.timeline_reads.of_branch(repository, branch, RUN_EVENTS, limit=_MOST_EVENTS)
    within = [each for each in found if query.first_day <= day_of(each.at) <= query.last_day]
    return train_sums(within) if within else None


def train_sums(events: Iterable[TimelineEvent]) -> TrainStatistics:
    """Add up the events of runs."""
    runs, landed, seconds = 0, 0, list[float]()
    for event in events:
        if event.event == RUN_STARTED:
            runs += 1
        elif event.event == RUN_PASSED:
            seconds.append(float(event.data.get("seconds") or 0))
        elif event.data.get("outcome") == "landed":
            landed += len(event.data.get("members") or ())
    return TrainStatistics(runs, landed, sum(seconds) / len(seconds) if seconds else None)
