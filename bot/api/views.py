"""Models in which callers read queues and entries."""

from datetime import datetime

from pydantic import BaseModel

from queue_engine.domain.blocker import Blocker
from queue_engine.domain.model import Entry
from queue_engine.queries.pull_request_status import PullRequestStatus, QueueHistory
from queue_engine.queries.queue_status import EntryView, QueueStatus
from queue_engine.queries.queue_status import QueueView as Summary
from queue_engine.rules.priority import PriorityEffect


class BlockerView(BaseModel):
    """What blocks a queue: a reason code, its details, and when that ends by itself, if it is known."""

    reason: str
    detail: str
    until: datetime | None

    @classmethod
    def of(cls, stands: Blocker) -> "BlockerView":
        """One blocker."""
        return cls(reason=stands.reason.value, detail=stands.detail, until=stands.until)


class Landing(BaseModel):
    """When it is likely to land, by how long others took here."""

    earliest: datetime
    latest: datetime


class EntryAnswer(BaseModel):
    """A pull request that is queued. `position` counts from 0, `since` is when its status began.

    `awaited` are the checks that have not reported; `halts` what blocks the queue, as far as it holds this
    one; `trouble_since` is when GitHub's own faults began to hold it up.
    """

    number: int
    title: str
    author: str
    queued_by: str
    position: int
    status: str
    head_sha: str
    priority: int
    first: bool
    joined: datetime
    since: datetime
    awaited: tuple[str, ...]
    halts: tuple[BlockerView, ...]
    trouble_since: datetime | None
    eta: Landing | None

    @classmethod
    def of(cls, view: EntryView) -> "EntryAnswer":
        """One entry, as of now."""
        entry, eta = view.entry, view.eta
        return cls(
            number=entry.number,
            title=entry.title,
            author=entry.author,
            queued_by=entry.queued_by,
            position=view.position.position,
            status=entry.status.value,
            head_sha=entry.head,
            priority=entry.priority,
            first=entry.hotfix,
            joined=entry.enqueued_at,
            since=view.since,
            awaited=view.pending_checks,
            halts=tuple(map(BlockerView.of, view.blockers)),
            trouble_since=None if view.outage is None else view.outage.since,
            eta=None if eta is None else Landing(earliest=eta[0], latest=eta[1]),
        )


class QueueSummary(BaseModel):
    """A queue: its base branch, its number of entries and of held pull requests, and what blocks it."""

    branch: str
    depth: int
    held: int
    halts: tuple[BlockerView, ...]

    @classmethod
    def of(cls, found: Summary) -> "QueueSummary":
        """One queue, as of now."""
        return cls(
            branch=found.queue.base_branch,
            depth=found.depth,
            held=found.held,
            halts=tuple(map(BlockerView.of, found.blockers)),
        )


class QueuesAnswer(BaseModel):
    """The queues of a repository, by their branches."""

    repository: str
    queues: tuple[QueueSummary, ...]


class QueueAnswer(QueueSummary):
    """A queue with those who stand in it, the front first."""

    repository: str
    entries: tuple[EntryAnswer, ...]

    @classmethod
    def whole(cls, found: QueueStatus) -> "QueueAnswer":
        """One queue, as of now."""
        return cls(
            branch=found.queue.base_branch,
            depth=found.depth,
            held=found.held,
            halts=tuple(map(BlockerView.of, found.blockers)),
            repository=found.queue.repository.full_name,
            entries=tuple(map(EntryAnswer.of, found.entries)),
        )


class LastStay(BaseModel):
    """How a pull request last left a queue: landed, failed or cancelled; or that it was refused."""

    event: str
    reason: str | None
    detail: str | None
    at: datetime

    @classmethod
    def of(cls, stay: QueueHistory) -> "LastStay":
        """The stay that ended."""
        reason = None if stay.reason is None else stay.reason.value
        return cls(event=stay.event, reason=reason, detail=stay.detail, at=stay.at)


class WhyAnswer(BaseModel):
    """Where a pull request stands: its entry, if it is queued; how many wait longer, if it is held.

    `state` is the entry's status, `held`, or `not_queued`.
    """

    repository: str
    number: int
    state: str
    queue: str | None
    depth: int
    entry: EntryAnswer | None
    waiting_before: int | None
    last: LastStay | None

    @classmethod
    def of(cls, repository: str, found: PullRequestStatus) -> "WhyAnswer":
        """One pull request, as of now."""
        return cls(
            repository=repository,
            number=found.number,
            state=found.state,
            queue=found.base_branch,
            depth=found.depth,
            entry=None if found.entry is None else EntryAnswer.of(found.entry),
            waiting_before=found.held_behind,
            last=None if found.previous is None else LastStay.of(found.previous),
        )


class Delays(BaseModel):
    """Whom a priority delays: who came before and stands behind, each by about so many seconds, if that is known.

    `interrupts` is the one that loses its turn.
    """

    numbers: tuple[int, ...]
    seconds: int | None
    interrupts: int | None

    @classmethod
    def of(cls, delay: PriorityEffect) -> "Delays":
        """As it was worked out."""
        seconds = None if delay.by is None else round(delay.by.total_seconds())
        return cls(numbers=delay.numbers, seconds=seconds, interrupts=delay.interrupts)


class QueuedAnswer(BaseModel):
    """Where the pull request stands; `position` is zero-based.

    It is null, and `status` is `held`, for one that waits for a place. `delays` is told to who gave a priority.
    """

    repository: str
    queue: str
    number: int
    position: int | None
    status: str
    head_sha: str
    queued_by: str
    priority: int
    delays: Delays | None = None

    @classmethod
    def of(cls, entry: Entry, delays: Delays | None = None) -> "QueuedAnswer":
        """As of now."""
        return cls(
            repository=entry.repository.full_name,
            queue=entry.base_branch,
            number=entry.number,
            position=entry.position,
            status=entry.status.value,
            head_sha=entry.head,
            queued_by=entry.queued_by,
            priority=entry.priority,
            delays=delays,
        )


class DequeuedAnswer(BaseModel):
    """Whether it left; if not, its merge is under way."""

    repository: str
    number: int
    left: bool
