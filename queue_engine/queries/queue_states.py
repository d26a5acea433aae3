"""Load queues at a glance: what runs, what landed last, what blocks them, and their figures against limits."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil

from queue_engine.config.model import Policy
from queue_engine.core.read_model import serialized
from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.departure import Departure
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import Entry, EntryStatus, Queue, TimelineEvent
from queue_engine.domain.reasons import PullRequestActor, Reason
from queue_engine.queries.check_view import RunView, group_runs, load_usual_times
from queue_engine.queries.pull_request_status import whose_move
from queue_engine.queries.queue_status import EntryView, QueueStatus, QueueView, load_queue
from queue_engine.store import Transaction

MEDIAN_LIMIT = 30 * 60.0
"""Seconds in the queue that half of the landings stay below."""
P95_LIMIT = 2 * 3600.0
"""Seconds in the queue that 95 of 100 landings stay below."""
FAILURES_LIMIT = 0.05
"""The share of failures among the pull requests that landed or failed; cancelled ones do not count."""

MEDIAN, P95 = 0.5, 0.95
"""The shares of the landings that wait at most so long."""
FEWEST = 5
"""The number of last departures below which a queue has no figures."""


@dataclass(frozen=True, slots=True)
class HealthLimit:
    """A figure and its limit. A figure of None is not known, so it exceeds nothing."""

    figure: float | None
    limit: float

    @serialized
    def met(self) -> bool:
        """Whether the figure is below its limit, or not known."""
        return self.figure is None or self.figure < self.limit


@dataclass(frozen=True, slots=True)
class Health:
    """The figures of a queue with their limits; durations are in seconds."""

    median_wait: HealthLimit
    p95_wait: HealthLimit
    failures: HealthLimit
    counted: int
    """How many pull requests landed or failed."""

    @serialized
    def good(self) -> bool:
        """Whether every limit is met."""
        return self.median_wait.met and self.p95_wait.met and self.failures.met

    @property
    def is_known(self) -> bool:
        """Whether any pull request has landed or failed."""
        return self.failures.figure is not None


def health_of(median: float | None, p95: float | None, *, failed: int, left: int) -> Health:
    """Judge figures: the waits of landings in seconds, and how many of the `left` pull requests failed."""
    return Health(
        HealthLimit(median, MEDIAN_LIMIT),
        HealthLimit(p95, P95_LIMIT),
        HealthLimit(failed / left if left else None, FAILURES_LIMIT),
        left,
    )


def health_of_last(waits: Sequence[float], *, failed: int) -> Health:
    """Judge the last departures: the seconds that each landing waited, and how many failed. Few have no figures."""
    left = len(waits) + failed
    if left < FEWEST:
        return replace(health_of(None, None, failed=0, left=0), counted=left)
    ordered = sorted(waits)
    median, p95 = (ordered[ceil(share * len(ordered)) - 1] if ordered else None for share in (MEDIAN, P95))
    return health_of(median, p95, failed=failed, left=left)


@dataclass(frozen=True, slots=True)
class BlockerState:
    """A blocker, since when it holds, and who set it, if a person did."""

    blocker: Blocker
    since: datetime | None
    by: str | None = None

    failing: tuple[FailingCheck, ...] = ()
    """The checks that fail on a red base."""

    @property
    def whose_move(self) -> PullRequestActor:
        """Who can end it."""
        return whose_move(self.blocker.reason)


def blocker_states(queue: Queue, blockers: tuple[Blocker, ...]) -> tuple[BlockerState, ...]:
    """Describe the blockers of a queue."""
    return tuple(_state(queue, blocker) for blocker in blockers)


def _state(queue: Queue, blocker: Blocker) -> BlockerState:
    if blocker.recorded and (pause := queue.pause(blocker.reason)) is not None:
        return BlockerState(blocker, pause.since, pause.by)
    if blocker.reason in (Reason.BASE_RED, Reason.TIP_UNTESTED) and queue.red is not None:
        return BlockerState(blocker, queue.red.since, failing=queue.red.failing)
    if queue.stall is not None and blocker.reason in (Reason.CHECKS_NOT_STARTING, Reason.CHECK_NEVER_REPORTED):
        return BlockerState(blocker, queue.stall.since)
    announced = BlockerNotices.from_json(queue.announced)
    same = [each for each in (announced.blockers if announced else ()) if each.announces(blocker)]
    return BlockerState(blocker, min((each.since for each in same if each.since is not None), default=None))


COUNTED = 100
"""How many of the last departures of each queue count."""
PERIOD = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class QueueState:
    """One queue at a glance."""

    view: QueueView
    blockers: tuple[BlockerState, ...]
    running: tuple[Entry, ...]
    """The members of active runs."""
    landed: TimelineEvent | None
    """The last landing."""
    health: Health
    """That of the last departures."""

    @property
    def needs_person(self) -> bool:
        """Whether a person has to act before the queue continues."""
        return any(each.whose_move is not PullRequestActor.NONE for each in self.blockers)


async def load_states(tx: Transaction, views: Sequence[QueueView], now: datetime) -> tuple[QueueState, ...]:
    """Load the state of each of these queues, in a few statements for all of them."""
    ids = [view.queue.id for view in views]
    if not ids:
        return ()
    running = await _running(tx, [view.queue.id for view in views if view.depth or view.held])
    last = await tx.timeline_reads.last_of_queues(ids, EntryStatus.LANDED.value)
    landed = {(event.repository_id, event.base_branch): event for event in last}
    health = await load_health(tx, [view.queue for view in views], now)
    return tuple(
        QueueState(
            view,
            blocker_states(view.queue, view.blockers),
            running.get(view.queue.id, ()),
            landed.get((view.queue.repository.id, view.queue.base_branch)),
            health[view.queue.id],
        )
        for view in views
    )


async def load_health(tx: Transaction, queues: Sequence[Queue], now: datetime) -> dict[int, Health]:
    """Load the health of each of these queues, by the queue's id; pull requests that people dequeued do not count."""
    waits, failed = defaultdict[int, list[float]](list), Counter[int]()
    for record in await tx.timeline_reads.waits(queues, now - PERIOD, limit=COUNTED):
        if record.outcome == EntryStatus.LANDED:
            waits[record.queue_id].append(record.seconds)
        elif record.outcome == EntryStatus.FAILED:
            failed[record.queue_id] += 1
    return {queue.id: health_of_last(waits[queue.id], failed=failed[queue.id]) for queue in queues}


async def _running(tx: Transaction, queue_ids: Sequence[int]) -> dict[int, tuple[Entry, ...]]:
    running: dict[int, tuple[Entry, ...]] = {}
    for entry in await tx.entries.in_runs(queue_ids):
        running[entry.queue_id] = (*running.get(entry.queue_id, ()), entry)
    return running


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
