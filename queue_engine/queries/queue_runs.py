"""Load a queue for people: its runs with their checks, the entries that wait, and what left it last."""

from dataclasses import dataclass
from datetime import datetime

from queue_engine.config.model import Policy
from queue_engine.domain.departure import Departure
from queue_engine.domain.model import Entry, Queue
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.queries.check_view import RunView, group_runs, load_usual_times
from queue_engine.queries.health import Health
from queue_engine.queries.queue_states import BlockerState, blocker_states, load_health
from queue_engine.queries.queue_status import EntryView, QueueStatus, load_queue
from queue_engine.store import Transaction

RECENT = 15
"""How many landings and departures are shown."""


@dataclass(frozen=True, slots=True)
class QueueRuns:
    """A queue at one instant."""

    status: QueueStatus
    runs: tuple[RunView, ...]
    waiting: tuple[EntryView, ...]
    """Entries with room that are no members of a run, in order."""
    held: tuple[Entry, ...]
    """Entries that wait for room, in order."""
    blockers: tuple[BlockerState, ...]
    recent: tuple[tuple[Departure, TimelineEvent | None], ...]
    """The last departures, newest first, with their events as far as the timeline keeps them."""
    health: Health


async def load_runs(tx: Transaction, queue: Queue, policy: Policy | None, now: datetime) -> QueueRuns:
    """Load a queue."""
    status = await load_queue(tx, queue, policy, now)
    repository_id, branch = queue.repository.id, queue.base_branch
    usual = await load_usual_times(tx, repository_id, branch)
    runs, waiting = group_runs(status.entries, usual, now)
    every = await tx.entries.of_queue(queue.id) if status.held else ()
    with_room = {view.entry.id for view in status.entries}
    recent = await tx.timeline_reads.departures(repository_id, branch, limit=RECENT)
    health = await load_health(tx, [queue], now)
    return QueueRuns(
        status,
        runs,
        waiting,
        tuple(entry for entry in every if entry.id not in with_room),
        blocker_states(queue, status.blockers),
        recent,
        health[queue.id],
    )
