"""A message: what a sink is sent about one event. Made in the transaction of the event, and stored in its job."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from pydantic import ConfigDict

from notifications.sinks.sink import EventKind
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.model import WHOLE_QUEUE, Entry, Queue, TimelineEvent
from queue_engine.domain.reasons import REASONS, Outcome, Reason

_OF_EVENTS: Mapping[str, EventKind] = {
    "failed": EventKind.EJECTED,
    "cancelled": EventKind.DEQUEUED,
    "landed": EventKind.LANDED,
    "queued": EventKind.QUEUED,
    "landed_outside": EventKind.LANDED_OUTSIDE,
    "paused": EventKind.PAUSED,
    "resumed": EventKind.RESUMED,
}
_OF_REASONS: Mapping[tuple[str, Reason], EventKind] = {
    ("paused", Reason.BASE_RED): EventKind.BASE_RED,
    ("resumed", Reason.BASE_RED): EventKind.BASE_GREEN,
    ("paused", Reason.FROZEN): EventKind.FROZEN,
    ("paused", Reason.TREE_MISMATCH): EventKind.TREE_MISMATCH,
}

_LONGEST = 1000
"""Characters of a text of others that a message keeps."""
_MOST_CHECKS = 20


class FailingCheck(ReadModel):
    """A check that failed: its page, and the names of its failed jobs."""

    model_config = ConfigDict(frozen=True)

    check: str
    url: str | None = None
    jobs: tuple[str, ...] = ()


class Message(ReadModel):
    """The content of a message, before rendering. Texts of others are as GitHub has them."""

    model_config = ConfigDict(frozen=True)

    kind: EventKind
    at: datetime
    event: str
    """The timeline's name of the event."""
    repository: str | None = None
    base_branch: str | None = None
    number: int | None = None
    title: str | None = None
    author: str | None = None
    reason: Reason | None = None
    detail: str | None = None
    by: str | None = None
    until: str | None = None
    sha: str | None = None
    before: str | None = None
    failing: tuple[FailingCheck, ...] = ()

    @property
    def whose_move(self) -> str:
        """Who has to act now."""
        if self.kind is EventKind.DEAD_LETTER:
            return "operator"
        if self.reason is None or self.event in {"resumed", "landed"}:
            return "none"
        return REASONS[self.reason].next_actor.value


def kind_of(event: TimelineEvent) -> EventKind | None:
    """Return the kind of an event; None if no sink can want it."""
    if event.reason is not None and (kind := _OF_REASONS.get((event.event, event.reason))) is not None:
        return kind
    return _OF_EVENTS.get(event.event)


def of_event(event: TimelineEvent, subject: Entry | Queue, kind: EventKind) -> Message:
    """Create the message about an event of an entry or of a queue."""
    data = event.data
    entry = subject if isinstance(subject, Entry) else None
    return Message(
        kind=kind,
        at=event.at,
        event=event.event,
        repository=subject.repository.full_name,
        base_branch=event.base_branch,
        number=None if event.number == WHOLE_QUEUE else event.number,
        title=None if entry is None else entry.title[:_LONGEST],
        author=None if entry is None else entry.author,
        reason=event.reason,
        detail=_text(data, "detail"),
        by=_text(data, "dequeued_by") or _text(data, "by"),
        until=_text(data, "until"),
        sha=_text(data, "sha"),
        before=_text(data, "before"),
        failing=_failing(event),
    )


def of_dead_letter(letter: DeadLetter) -> Message:
    """Create the message about a new dead letter."""
    return Message(
        kind=EventKind.DEAD_LETTER,
        at=letter.failed_at,
        event=EventKind.DEAD_LETTER.value,
        repository=repository_of(letter),
        detail=f"{letter.job_type} {letter.id}: {letter.error_message}"[:_LONGEST],
    )


def repository_of(letter: DeadLetter) -> str | None:
    """Return the repository that a dead letter names; None if it names none, or only by its id."""
    owner, name = letter.payload.get("owner"), letter.payload.get("name")
    return f"{owner}/{name}" if isinstance(owner, str) and isinstance(name, str) else None


def _text(data: Mapping[str, Any], name: str) -> str | None:
    value = data.get(name)
    return value[:_LONGEST] if isinstance(value, str) and value else None


def _failing(event: TimelineEvent) -> tuple[FailingCheck, ...]:
    """Return the failing checks of an ejection, with their pages where the event has them."""
    if event.reason is None or REASONS[event.reason].outcome is not Outcome.FAILED:
        return ()
    found = event.data.get("failing")
    if isinstance(found, list) and found:
        return tuple(_check(each) for each in found[:_MOST_CHECKS] if isinstance(each, dict))
    names = event.data.get("checks")
    return tuple(FailingCheck(check=str(name)) for name in names[:_MOST_CHECKS]) if isinstance(names, list) else ()


def _check(found: Mapping[str, Any]) -> FailingCheck:
    url, jobs = found.get("url"), found.get("jobs")
    return FailingCheck(
        check=str(found.get("check", "?"))[:_LONGEST],
        url=url if isinstance(url, str) else None,
        jobs=tuple(str(job)[:_LONGEST] for job in jobs[:_MOST_CHECKS]) if isinstance(jobs, list) else (),
    )
