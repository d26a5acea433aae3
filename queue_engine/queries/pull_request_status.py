"""Load the state of a pull request, and why it waits: its entry, room in its queue, or how it left."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from queue_engine.domain.model import EntryStatus, Queue
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.queries.position import load_durations
from queue_engine.queries.queue_status import EntryView, entry_view, queue_blockers
from queue_engine.rules.depth import with_room
from queue_engine.store import Transaction
from queue_engine.store.rejections import Rejection

HELD, NOT_QUEUED = "held", "not_queued"
"""The states of a pull request that waits for room or is not queued; otherwise its state is the entry's status."""


@dataclass(frozen=True, slots=True)
class QueueHistory:
    """How a pull request last left a queue: it landed, failed, was cancelled, or was refused."""

    event: str
    reason: Reason | None
    detail: str | None
    at: datetime


@dataclass(frozen=True, slots=True)
class PullRequestStatus:
    """One pull request at one instant."""

    number: int
    state: str
    base_branch: str | None
    """The base branch of its queue."""
    depth: int
    """How many entries have room in that queue."""
    entry: EntryView | None = None
    """Its entry, if that has room."""
    held_behind: int | None = None
    """While the entry waits for room: how many others get room before."""
    previous: QueueHistory | None = None
    """If the pull request is not queued: how it last left, if ever."""
    rejected: Rejection | None = None
    """If the pull request is not queued: the last rejected head, since it was last queued or landed."""

    @property
    def next_actor(self) -> ReasonActor:
        """Who has to act now, or since the pull request left."""
        if self.entry is not None:
            return self.entry.next_actor
        left_for = None if self.previous is None else self.previous.reason
        return ReasonActor.NONE if left_for is None else REASONS[left_for].next_actor


async def load_pull_request(
    tx: Transaction, repository_id: int, number: int, policies: Mapping[str, Policy], now: datetime
) -> PullRequestStatus:
    """Load the stored state of a pull request.

    `policies` are the known policies of base branches; `queue_blockers` says what happens without one.
    """
    queue = await tx.queues.of_pull_request(repository_id, number)
    if queue is None:
        previous = last_outcome(await tx.timeline.of_pull_request(repository_id, number))
        rejected = await tx.refusals.find(repository_id, number)
        return PullRequestStatus(number, NOT_QUEUED, None, 0, previous=previous, rejected=rejected)
    return await _of_queue(tx, queue, number, policies.get(queue.base_branch), now)


async def _of_queue(
    tx: Transaction, queue: Queue, number: int, policy: Policy | None, now: datetime
) -> PullRequestStatus:
    every = await tx.entries.of_queue(queue.id)
    # Without a policy (it may take a request), the last announcement says which entries wait for room.
    entries = [each for each in every if each.held_since is None] if policy is None else with_room(every, policy)
    entry = next(each for each in every if each.number == number)
    behind = entry.position - len(entries)
    if behind >= 0:
        return PullRequestStatus(number, HELD, queue.base_branch, len(entries), held_behind=behind)
    durations = await load_durations(tx, queue.repository.id, queue.base_branch)
    view = entry_view(queue, entries, entry, queue_blockers(queue, policy, now), durations, now)
    return PullRequestStatus(number, entry.status.value, queue.base_branch, len(entries), view)


def last_outcome(events: Sequence[TimelineEvent]) -> QueueHistory | None:
    """Find how a pull request last left a queue, by its events, oldest first; None if it never did."""
    for event in reversed(events):
        if event.event == EntryStatus.LANDED or event.reason is not None:
            return QueueHistory(event.event, event.reason, event.data.get("detail"), event.at)
    return None
