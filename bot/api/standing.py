"""What callers read of queues and of those who stand in them, as models."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import BaseModel

from queue_engine.commands.looking import ended
from queue_engine.eta import landing
from queue_engine.model import Entry, Queue
from queue_engine.policy import Policy
from queue_engine.priority import Delay
from queue_engine.standing import Standstill, standstills
from queue_engine.store import Transaction


class Halt(BaseModel):
    """Why a queue stands still: a reason code, what it is about, and when that ends by itself, if it is known."""

    reason: str
    detail: str
    until: datetime | None

    @classmethod
    def of(cls, stands: Standstill) -> "Halt":
        """One standstill."""
        return cls(reason=stands.reason.value, detail=stands.detail, until=stands.until)


class Landing(BaseModel):
    """When it is likely to land, by how long others took here."""

    earliest: datetime
    latest: datetime


class EntryAnswer(BaseModel):
    """A pull request that stands in a queue. `position` counts from 0, `since` is when its status began.

    `awaited` are the checks that have not reported; `halts` what the queue stands still for, as far as it holds this
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
    halts: tuple[Halt, ...]
    trouble_since: datetime | None
    eta: Landing | None


class QueueSummary(BaseModel):
    """A queue: its base branch, how many stand in it, how many wait for a place, and why it stands still, if so."""

    branch: str
    depth: int
    held: int
    halts: tuple[Halt, ...]


class QueuesAnswer(BaseModel):
    """The queues of a repository, by their branches."""

    repository: str
    queues: tuple[QueueSummary, ...]


class QueueAnswer(QueueSummary):
    """A queue with those who stand in it, the front first."""

    repository: str
    entries: tuple[EntryAnswer, ...]


class LastStay(BaseModel):
    """How a pull request's last stay in a queue ended: landed, failed, cancelled, or refused at the door."""

    event: str
    reason: str | None
    detail: str | None
    at: datetime


class WhyAnswer(BaseModel):
    """Where a pull request stands: its entry, if it stands in a queue; how many wait longer, if it waits for a place.

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


class Delays(BaseModel):
    """Whom a priority delays: who came before and stands behind, each by about so many seconds, if that is known.

    `interrupts` is the one that loses its turn.
    """

    numbers: tuple[int, ...]
    seconds: int | None
    interrupts: int | None

    @classmethod
    def of(cls, delay: Delay) -> "Delays":
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


@dataclass(frozen=True, slots=True)
class View:
    """A queue at one instant, with what is needed to tell of it."""

    queue: Queue
    entries: tuple[Entry, ...]
    held: int
    turns: Sequence[timedelta]
    policy: Policy
    now: datetime

    @classmethod
    async def of(cls, tx: Transaction, queue: Queue, policy: Policy, now: datetime) -> "View":
        """The queue as it is stored now."""
        repository, branch = queue.repository, queue.base_branch
        entries = await tx.entries.of_queue(queue.id)
        turns = await tx.timeline.durations(repository.id, branch, "landed", "front")
        return cls(queue, entries, await tx.held.count(queue.id), turns, policy, now)

    @property
    def halts(self) -> tuple[Standstill, ...]:
        """Everything that it stands still for."""
        return standstills(self.queue, self.policy, self.now)

    def summary(self) -> dict[str, Any]:
        """The fields of a summary."""
        return {
            "branch": self.queue.base_branch,
            "depth": len(self.entries),
            "held": self.held,
            "halts": tuple(map(Halt.of, self.halts)),
        }

    def whole(self) -> QueueAnswer:
        """With everybody in it."""
        entries = tuple(map(self.entry, self.entries))
        return QueueAnswer(**self.summary(), repository=self.queue.repository.full_name, entries=entries)

    def entry(self, entry: Entry) -> EntryAnswer:
        """One of those in it."""
        halts = tuple(Halt.of(halt) for halt in self.halts if not halt.lets(entry))
        return EntryAnswer(
            number=entry.number,
            title=entry.title,
            author=entry.author,
            queued_by=entry.queued_by,
            position=entry.position,
            status=entry.status.value,
            head_sha=entry.head,
            priority=entry.priority,
            first=entry.first,
            joined=entry.enqueued_at,
            since=entry.status_since,
            awaited=tuple(name for name in entry.awaited_checks if name not in entry.reported_checks),
            halts=halts,
            trouble_since=entry.trouble_since,
            eta=None if halts else self._landing(entry),
        )

    def _landing(self, entry: Entry) -> Landing | None:
        began = self.entries[0].started_at
        spent = timedelta(0) if began is None else self.now - began
        expected = landing(self.turns, ahead=entry.position, spent=spent)
        return None if expected is None else Landing(earliest=self.now + expected[0], latest=self.now + expected[1])


async def why(tx: Transaction, view: View | None, full_name: str, repository_id: int, number: int) -> WhyAnswer:
    """Where a pull request stands; `view` is of the queue that it stands in or waits for, None if it does neither."""
    entry = waiting_before = last = None
    state = "not_queued"
    if view is not None:
        entry = next((view.entry(each) for each in view.entries if each.number == number), None)
        if entry is not None:
            state = entry.status
        elif await tx.held.find(repository_id, number) is not None:
            state, waiting_before = "held", await tx.held.ahead(view.queue.id, repository_id, number)
    if state == "not_queued":
        told = ended(await tx.timeline.of_pull_request(repository_id, number))
        last = LastStay(**told) if told else None
    return WhyAnswer(
        repository=full_name,
        number=number,
        state=state,
        queue=None if view is None or state == "not_queued" else view.queue.base_branch,
        depth=0 if view is None else len(view.entries),
        entry=entry,
        waiting_before=waiting_before,
        last=last,
    )
