"""Load the history of a pull request: its events for people, and what it waited for at a past instant.

The timeline has who was queued, each change of the order, of a status and of the blockers. A queue is reconstructed
from its last events before that instant; where these do not reach back to the enqueueing of the pull request, its
position is unknown. The event that ended a test says when each check had ended; a test that still runs has its entry.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from queue_engine.domain.blocker import Blocker
from queue_engine.domain.departure import ENDS
from queue_engine.domain.model import PAUSES, PROCESSING, WHOLE_QUEUE, EntryStatus, TimelineEvent
from queue_engine.domain.reasons import PullRequestActor, Reason, WaitReason
from queue_engine.domain.run import RUN_ENDED, RUN_EVENTS
from queue_engine.queries.pull_request_status import (
    HELD,
    NOT_QUEUED,
    NOT_READY,
    QueueHistory,
    last_outcome,
    status_reason,
    whose_move,
)
from queue_engine.queries.queue_status import landing
from queue_engine.rules.check_progress import pending_at, pending_checks
from queue_engine.store import Transaction

SHOWN = 50
"""How many events one part has, without those of trains."""
_RUNS_READ = 200

_BEGIN = EntryStatus.CHECKING.value


@dataclass(frozen=True, slots=True)
class RunRecord:
    """One test of a commit that has ended."""

    commit: str
    began: datetime | None
    """When IMQ began to wait for its checks; None if that is in an earlier part of the history."""
    ended: datetime
    event: str
    """The event that ended the test: `ready`, `failed`, `cancelled`, `updating` or `pending`."""
    reason: Reason | None
    seconds: tuple[tuple[str, float], ...]
    """How long each check took, by name."""
    preempted: bool = False
    """Whether a hotfix ended it."""
    outcome: str | None = None
    """How the run of a train ended that was this test, where its event has it."""


@dataclass(frozen=True, slots=True)
class PullRequestHistory:
    events: tuple[TimelineEvent, ...]
    """Newest first."""
    runs: tuple[RunRecord, ...]
    """The tests that ended in this part, newest first."""
    older: int | None
    """The id before which the next part begins; None: this is the last."""


async def load_history(
    tx: Transaction, repository_id: int, number: int, *, before: int | None = None
) -> PullRequestHistory:
    """Load the last events of a pull request before this id."""
    found = await tx.timeline_reads.of_pull_request(repository_id, number, limit=SHOWN + 1, before=before)
    events = found[:SHOWN]
    older = events[-1].id if len(found) > SHOWN else None
    shown = sorted((*events, *await _of_trains(tx, events, before)), key=lambda each: each.id, reverse=True)
    return PullRequestHistory(tuple(shown), runs_of(shown), older)


async def _of_trains(tx: Transaction, events: Sequence[TimelineEvent], before: int | None) -> tuple[TimelineEvent, ...]:
    """Load the runs of trains that tested the pull request between these events, or since."""
    if not events:
        return ()
    newest, oldest = events[0], events[-1]
    until = before or (newest.id if newest.event in ENDS else None)
    found = await tx.timeline_reads.of_branch(
        newest.repository_id, newest.base_branch, RUN_EVENTS, limit=_RUNS_READ, before=until, after=oldest.id
    )
    return tuple(each for each in found if newest.number in (each.data.get("members") or ()))


def runs_of(events: Sequence[TimelineEvent]) -> tuple[RunRecord, ...]:
    """Find the tests that these events end, newest first as the events are. Of each commit the newest event counts."""
    runs: dict[str, RunRecord] = {}
    for event in events:
        commit, seconds = event.data.get("tested"), event.data.get("check_seconds")
        if not isinstance(commit, str) or not isinstance(seconds, dict) or commit in runs:
            continue
        known = tuple(sorted((str(name), float(each)) for name, each in seconds.items()))
        preempted = event.data.get("yields_to") is not None
        # One transaction ends a run and the tests of its members.
        ends = (each for each in events if each.event == RUN_ENDED and each.at == event.at)
        outcome = next((each.data.get("outcome") for each in ends), None)
        runs[commit] = RunRecord(
            commit,
            _began(events, event),
            event.at,
            event.event,
            event.reason,
            known,
            preempted,
            outcome,
        )
    return tuple(runs.values())


def _began(events: Sequence[TimelineEvent], end: TimelineEvent) -> datetime | None:
    """Return when the test began that this event ends; a train tests another commit than the head."""
    before = [e for e in events if e.id < end.id]
    of_head = (e.at for e in before if e.event == _BEGIN and e.data.get("head") == end.data["tested"])
    last = next((e for e in before if e.event == _BEGIN or e.data.get("check_seconds") is not None), None)
    return next(of_head, last.at if last is not None and last.event == _BEGIN else None)


_JOINED = ("queued", "held")
_ASKED = (*_JOINED, NOT_READY)
_LEFT = (EntryStatus.LANDED.value, EntryStatus.FAILED.value, EntryStatus.CANCELLED.value)
_MOVED = (EntryStatus.UPDATING.value, EntryStatus.CHECKING.value, EntryStatus.READY.value, EntryStatus.PENDING.value)
_OTHERS = ("priority", "blocked", "paused", "resumed")
_READ = (*_ASKED, *_LEFT, *_MOVED, *_OTHERS)

_OF_PULL_REQUEST = 200
"""How many events of the pull request are read."""
_LANDINGS = 50
"""Landings that an estimate counts with."""
_OF_BRANCH = 1000
"""How many events of each kind are read of its queue."""

_FIRST = (
    *PAUSES[:3],
    Reason.MISCONFIGURED,
    Reason.FROZEN,
    Reason.CHECK_NEVER_REPORTED,
    Reason.CHECKS_NOT_STARTING,
    Reason.BASE_RED,
    Reason.TIP_UNTESTED,
)
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
    enqueued_at: datetime | None = None
    queued_by: str | None = None
    blockers: tuple[Blocker, ...] = ()
    deferral: Reason | None = None
    """The reason for which its queue continued without it, or what it lacked while it waited outside the queue."""
    pending_checks: tuple[str, ...] = ()
    """The checks that had not ended, as far as IMQ came to know them."""
    eta: tuple[datetime, datetime] | None = None
    """When it was likely to land then, by the landings before; None if it was blocked, or had too little history."""
    previous: QueueHistory | None = None

    @property
    def reason(self) -> Reason | WaitReason:
        """The code for why the pull request waited, or for how it had left."""
        if self.state == NOT_QUEUED:
            left = self.previous
            return WaitReason.NEVER_QUEUED if left is None else left.reason or WaitReason.LANDED
        if self.state == HELD:
            return Reason.QUEUE_FULL
        if self.state == NOT_READY and self.deferral is not None:
            return self.deferral
        if self.blockers:
            return self.blockers[0].reason
        return self.deferral or status_reason(self.state, self.position or 0)

    @property
    def whose_move(self) -> PullRequestActor:
        """Who had to act."""
        return whose_move(self.reason)


@dataclass(slots=True)
class _Replayed:
    """A queue as its events made it: the ids of its entries in order, when its run began, and its blockers."""

    order: list[str] = field(default_factory=list)
    begun: datetime | None = None
    """When the run of the present front began."""
    durations: list[timedelta] = field(default_factory=list)
    """How long the entries that landed were at the front, newest last."""
    blockers: dict[tuple[Reason, bool], Blocker] = field(default_factory=dict)
    """By reason, and whether a person set it: a freeze by hand and one of the configuration are two."""


async def load_status_at(tx: Transaction, repository_id: int, number: int, at: datetime) -> StatusHistory:
    """Load what a pull request waited for at this instant."""
    end = await tx.timeline_reads.last_id(at) + 1
    found = await tx.timeline_reads.of_pull_request(repository_id, number, limit=_OF_PULL_REQUEST, before=end)
    events = tuple(reversed(found))
    mine = _membership(events)
    if mine is None:
        return StatusHistory(number, at, NOT_QUEUED, previous=last_outcome(events))
    asked, last = mine[0], next(event for event in reversed(mine) if event.event in (*_ASKED, *_MOVED, "blocked"))
    branch = asked.base_branch
    newest = await tx.timeline_reads.of_branch(repository_id, branch, _READ, limit=_OF_BRANCH, before=end)
    replayed = _replay(reversed(newest))
    entry_id = asked.entry_id or ""
    position = replayed.order.index(entry_id) if entry_id in replayed.order else None
    blockers = _holding(replayed, at)
    status = StatusHistory(
        number,
        at,
        _state(last),
        branch,
        None if last.event in (HELD, NOT_READY) else position,
        len(replayed.order) if position is not None else None,
        _since(mine, last),
        asked.at,
        next(
            (
                str(event.data["by"])
                for event in reversed(mine)
                if event.data.get("by") and event.event in ("queued", NOT_READY)
            ),
            None,
        ),
        blockers,
    )
    if last.event == EntryStatus.CHECKING:
        pending = await _pending_checks(tx, asked, end, at)
        status = replace(status, pending_checks=pending)
    if last.event in ("blocked", NOT_READY):
        return replace(status, deferral=last.reason)
    return replace(status, eta=_eta(replayed, status, at))


async def _pending_checks(tx: Transaction, asked: TimelineEvent, end: int, at: datetime) -> tuple[str, ...]:
    """Return the checks of an entry's test that had not ended at an instant; `end` is the first id after it."""
    later = await tx.timeline_reads.afterwards(asked.repository_id, asked.number, after=end - 1, limit=_OF_PULL_REQUEST)
    own = [event for event in later if event.entry_id == asked.entry_id]
    ended = next((event for event in own if event.event in (*_MOVED, *_LEFT)), None)
    if ended is not None:
        return pending_at(ended, at)
    entry = None if asked.entry_id is None else await tx.entries.get(asked.entry_id)
    if entry is None:
        return ()
    ends = dict.fromkeys(pending_checks(entry.run)) | {each.name: each.ended for each in entry.run.timings}
    return tuple(sorted(name for name, each in ends.items() if each is None or each > at))


def _eta(queue: _Replayed, status: StatusHistory, at: datetime) -> tuple[datetime, datetime] | None:
    if status.blockers or status.position is None:
        return None
    spent = timedelta(0) if queue.begun is None else at - queue.begun
    found = landing(queue.durations[-_LANDINGS:], ahead=status.position, spent=spent)
    return None if found is None else (at + found[0], at + found[1])


def _membership(events: Sequence[TimelineEvent]) -> tuple[TimelineEvent, ...] | None:
    """Return the events since the pull request was queued last, oldest first; None if it is not queued."""
    asked = [event for event in events if event.event in _ASKED]
    if not asked or any(_ends(event, asked[-1]) for event in events):
        return None
    own = asked[-1].entry_id
    return tuple(event for event in events if event.entry_id == own and event.event in (*_ASKED, *_MOVED, *_OTHERS))


def _ends(event: TimelineEvent, asked: TimelineEvent) -> bool:
    """Whether the event ends the membership. One that was never in the queue ends without an entry."""
    if event.event in _LEFT and event.entry_id == asked.entry_id:
        return True
    outside = asked.event == NOT_READY and event.entry_id is None and event.id > asked.id
    return outside and event.event in (EntryStatus.CANCELLED.value, "refused")


def _state(last: TimelineEvent) -> str:
    if last.event in (HELD, NOT_READY):
        return last.event
    return last.event if last.event in _MOVED else EntryStatus.PENDING.value


def _since(mine: Sequence[TimelineEvent], last: TimelineEvent) -> datetime:
    """Return when the present status began: room, or the lack of it, is no change of the status."""
    return mine[0].at if last.event in _ASKED else last.at


def _replay(events: Iterable[TimelineEvent]) -> _Replayed:
    queue = _Replayed()
    for event in events:
        if event.number == WHOLE_QUEUE:
            _block(queue, event)
        elif event.entry_id is not None:
            _move(queue, event, event.entry_id)
    return queue


def _move(queue: _Replayed, event: TimelineEvent, entry_id: str) -> None:
    order, position = queue.order, event.data.get("position")
    front = order[0] if order else None
    if event.event in (*_LEFT, NOT_READY):
        _remove(order, entry_id)
        if event.event == EntryStatus.LANDED and isinstance(event.data.get("front"), int | float):
            queue.durations.append(timedelta(seconds=event.data["front"]))
    elif event.event in _JOINED and entry_id not in order:
        order.insert(position if isinstance(position, int) else len(order), entry_id)
    elif event.event == "priority" and isinstance(position, int):
        _remove(order, entry_id)
        order.insert(position, entry_id)
    elif event.event in PROCESSING and entry_id in order:
        _remove(order, entry_id)
        order.insert(0, entry_id)
        queue.begun = event.at if front != entry_id or queue.begun is None else queue.begun
    if not order or order[0] != front or event.event == EntryStatus.PENDING:
        queue.begun = event.at if event.event in PROCESSING else None


def _remove(order: list[str], entry_id: str) -> None:
    if entry_id in order:
        order.remove(entry_id)


def _block(queue: _Replayed, event: TimelineEvent) -> None:
    if event.reason is None:
        return
    detail, by = str(event.data.get("detail") or ""), event.data.get("by")
    by_hand = by is not None
    if event.event == "resumed":
        known = [key for key in queue.blockers if key[0] is event.reason]
        # IMQ itself records the end of a freeze by hand that is over: the detail says which one ended.
        ended = [key for key in known if queue.blockers[key].detail == detail and (key[1] or not by_hand)]
        for key in ended[:1] or known:
            del queue.blockers[key]
        return
    until = event.data.get("until")
    ends = datetime.fromisoformat(until) if isinstance(until, str) else None
    slot = event.reason, by_hand and event.reason is Reason.FROZEN
    queue.blockers[slot] = Blocker(event.reason, detail, ends, since=event.at, by=by)


def _holding(queue: _Replayed, at: datetime) -> tuple[Blocker, ...]:
    found = (each for each in queue.blockers.values() if each.until is None or each.until > at)
    return tuple(sorted(found, key=lambda each: _FIRST.index(each.reason) if each.reason in _FIRST else len(_FIRST)))
