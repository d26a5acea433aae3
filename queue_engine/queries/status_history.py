"""Reconstruct from the timeline what a pull request waited for at a past instant.

The timeline has who was queued, each change of the order, of a status and of the blockers, but not which checks were
pending. A queue is reconstructed from its last events before that instant; where these do not reach back to the
enqueueing of the pull request, its position is unknown.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import PAUSES, PROCESSING, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.timeline_event import WHOLE_QUEUE, TimelineEvent
from queue_engine.domain.wait_reasons import PullRequestActor, WaitReason
from queue_engine.queries.pull_request_status import (
    HELD,
    NOT_QUEUED,
    QueueHistory,
    last_outcome,
    status_reason,
    whose_move,
)
from queue_engine.store import Transaction

_JOINED = ("queued", "held")
_LEFT = (EntryStatus.LANDED.value, EntryStatus.FAILED.value, EntryStatus.CANCELLED.value)
_MOVED = (EntryStatus.UPDATING.value, EntryStatus.CHECKING.value, EntryStatus.READY.value, EntryStatus.PENDING.value)
_OTHERS = ("priority", "blocked", "paused", "resumed")
_READ = (*_JOINED, *_LEFT, *_MOVED, *_OTHERS)

_OF_PULL_REQUEST = 200
"""How many events of the pull request are read."""
_OF_BRANCH = 1000
"""How many events of each kind are read of its queue."""

_FIRST = (*PAUSES[:3], Reason.MISCONFIGURED, Reason.FROZEN, Reason.CHECKS_NOT_STARTING, Reason.BASE_RED)
"""Blockers in the order in which `blockers_of` returns them, but for a freeze by hand, which is before others."""


@dataclass(frozen=True, slots=True)
class StatusHistory:
    """What a pull request waited for at a past instant, as `PullRequestStatus` says it now."""

    number: int
    at: datetime
    state: str
    base_branch: str | None = None
    position: int | None = None
    """Its position in the queue, counted from 0; None where it had no room, or the timeline does not say."""
    depth: int | None = None
    """How many entries were queued, those that waited for room included."""
    since: datetime | None = None
    joined: datetime | None = None
    queued_by: str | None = None
    blockers: tuple[Blocker, ...] = ()
    deferral: Reason | None = None
    """The reason for which its queue continued without it."""
    previous: QueueHistory | None = None

    @property
    def reason(self) -> Reason | WaitReason:
        """The code for why the pull request waited, or for how it had left."""
        if self.state == NOT_QUEUED:
            left = self.previous
            return WaitReason.NEVER_QUEUED if left is None else left.reason or WaitReason.LANDED
        if self.state == HELD:
            return Reason.QUEUE_FULL
        if self.blockers:
            return self.blockers[0].reason
        return self.deferral or status_reason(self.state, self.position or 0)

    @property
    def whose_move(self) -> PullRequestActor:
        """Who had to act."""
        return whose_move(self.reason)


@dataclass(slots=True)
class _Replayed:
    """A queue as its events made it: the ids of its entries in order, and its blockers."""

    order: list[str] = field(default_factory=list)
    blockers: dict[Reason, Blocker] = field(default_factory=dict)


async def load_status_at(tx: Transaction, repository_id: int, number: int, at: datetime) -> StatusHistory:
    """Load what a pull request waited for at this instant."""
    end = await tx.timeline_reads.last_id(at) + 1
    found = await tx.timeline_reads.of_pull_request(repository_id, number, limit=_OF_PULL_REQUEST, before=end)
    events = tuple(reversed(found))
    mine = _membership(events)
    if mine is None:
        return StatusHistory(number, at, NOT_QUEUED, previous=last_outcome(events))
    joined, last = mine[0], next(event for event in reversed(mine) if event.event in (*_JOINED, *_MOVED, "blocked"))
    branch = joined.base_branch
    newest = await tx.timeline_reads.of_branch(repository_id, branch, _READ, limit=_OF_BRANCH, before=end)
    replayed = _replay(reversed(newest))
    entry_id = joined.entry_id or ""
    position = replayed.order.index(entry_id) if entry_id in replayed.order else None
    status = StatusHistory(
        number,
        at,
        _state(last),
        branch,
        None if last.event == HELD else position,
        len(replayed.order) if position is not None else None,
        _since(mine, last),
        joined.at,
        next(
            (str(event.data["by"]) for event in reversed(mine) if event.data.get("by") and event.event == "queued"),
            None,
        ),
        _holding(replayed, at),
    )
    return replace(status, deferral=last.reason) if last.event == "blocked" else status


def _membership(events: Sequence[TimelineEvent]) -> tuple[TimelineEvent, ...] | None:
    """Return the events since the pull request was queued last, oldest first; None if it is not queued."""
    ids = [event.entry_id for event in events if event.event in _JOINED]
    if not ids or any(event.event in _LEFT and event.entry_id == ids[-1] for event in events):
        return None
    return tuple(
        event for event in events if event.entry_id == ids[-1] and event.event in (*_JOINED, *_MOVED, *_OTHERS)
    )


def _state(last: TimelineEvent) -> str:
    if last.event == HELD:
        return HELD
    return last.event if last.event in _MOVED else EntryStatus.PENDING.value


def _since(mine: Sequence[TimelineEvent], last: TimelineEvent) -> datetime:
    """Return when the present status began: room, or the lack of it, is no change of the status."""
    return mine[0].at if last.event in _JOINED else last.at


def _replay(events: Iterable[TimelineEvent]) -> _Replayed:
    queue = _Replayed()
    for event in events:
        if event.number == WHOLE_QUEUE:
            _block(queue, event)
        elif event.entry_id is not None:
            _move(queue.order, event, event.entry_id)
    return queue


def _move(order: list[str], event: TimelineEvent, entry_id: str) -> None:
    position = event.data.get("position")
    if event.event in _LEFT:
        _remove(order, entry_id)
    elif event.event in _JOINED and entry_id not in order:
        order.insert(position if isinstance(position, int) else len(order), entry_id)
    elif event.event == "priority" and isinstance(position, int):
        _remove(order, entry_id)
        order.insert(position, entry_id)
    elif event.event in PROCESSING and entry_id in order:
        _remove(order, entry_id)
        order.insert(0, entry_id)


def _remove(order: list[str], entry_id: str) -> None:
    if entry_id in order:
        order.remove(entry_id)


def _block(queue: _Replayed, event: TimelineEvent) -> None:
    if event.reason is None:
        return
    if event.event == "resumed":
        queue.blockers.pop(event.reason, None)
        return
    until = event.data.get("until")
    ends = datetime.fromisoformat(until) if isinstance(until, str) else None
    queue.blockers[event.reason] = Blocker(event.reason, str(event.data.get("detail") or ""), ends)


def _holding(queue: _Replayed, at: datetime) -> tuple[Blocker, ...]:
    found = (each for each in queue.blockers.values() if each.until is None or each.until > at)
    return tuple(sorted(found, key=lambda each: _FIRST.index(each.reason) if each.reason in _FIRST else len(_FIRST)))
