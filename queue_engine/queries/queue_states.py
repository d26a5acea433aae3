"""Load many queues at a glance: what runs, what landed last, what blocks them, and their figures against limits."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.domain.blocker import Blocker, BlockerNotices
from queue_engine.domain.failing_check import FailingCheck
from queue_engine.domain.model import Entry, EntryStatus, Queue
from queue_engine.domain.reasons import PullRequestActor, Reason
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.queries.health import Health, health_of_last
from queue_engine.queries.pull_request_status import whose_move
from queue_engine.queries.queue_status import QueueView
from queue_engine.store import Transaction


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
