"""A sink: where messages go, and which events it wants. Plain data whose secrets no `repr` shows.

The engine calls this through its port, in the transaction of the event, so that no message is lost (P2). A private
repository's events go only to sinks one of whose patterns matches the repository.

A webhook is signed by HMAC-SHA256 of `{id}.{timestamp}.{body}`, in base64 after `v1,`. While a secret is replaced there
are several signatures, separated by spaces. Sources: the specification
(github.com/standard-webhooks/standard-webhooks), its library for Python (`standardwebhooks` 1.1.0), and Symfony's
StandardWebhooksSignature.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Any

import structlog

from queue_engine.config.patterns import branch_matches
from queue_engine.core.jobs.dead_letters import DeadLetter
from queue_engine.core.jobs.job import JobRequest
from queue_engine.core.read_model import ReadModel
from queue_engine.domain.facts import FailingCheck
from queue_engine.domain.model import WHOLE_QUEUE, Entry, Queue, TimelineEvent
from queue_engine.domain.reasons import REASONS, Outcome, Reason


class SinkKind(StrEnum):
    """The kinds of receivers."""

    SLACK = "slack"
    WEBHOOK = "webhook"


class EventKind(StrEnum):
    """The kinds of events that a sink can want."""

    EJECTED = "ejected"
    LANDED_OUTSIDE = "landed_outside"
    BASE_RED = "base_red"
    BASE_GREEN = "base_green"
    CULPRIT = "culprit"
    LANDED = "landed"
    QUEUED = "queued"
    DEQUEUED = "dequeued"
    PAUSED = "paused"
    RESUMED = "resumed"
    FROZEN = "frozen"
    TREE_MISMATCH = "tree_mismatch"
    FLAKE = "flake_seen"
    DEAD_LETTER = "dead_letter"
    TEST = "test"
    """What `imq sinks test` sends; no sink has to ask for it."""


DEFAULT_EVENTS = (EventKind.EJECTED, EventKind.LANDED_OUTSIDE, EventKind.BASE_RED, EventKind.BASE_GREEN)
"""What teams otherwise build themselves."""

EVERY_REPOSITORY = "*/*"

SINK_JOBS: Mapping[SinkKind, str] = {SinkKind.SLACK: "sink_slack", SinkKind.WEBHOOK: "sink_webhook"}
"""The kind of the jobs that send the messages, by the kind of their sink."""


@dataclass(frozen=True, slots=True)
class Sink:
    """One receiver."""

    name: str
    kind: SinkKind
    url: str = field(repr=False)
    """A secret: everyone who knows the address of a Slack webhook may post there."""
    repositories: tuple[str, ...]
    """Patterns of `owner/name`."""
    branches: tuple[str, ...] = ("**",)
    events: frozenset[EventKind] = frozenset(DEFAULT_EVENTS)
    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """Keys of the signature, the newest first; none for Slack."""

    @property
    def host(self) -> str:
        """The host of the address, which is no secret."""
        return self.url.split("://", 1)[-1].split("/", 1)[0].rpartition("@")[2]


_OF_EVENTS: Mapping[str, EventKind] = {
    "failed": EventKind.EJECTED,
    "cancelled": EventKind.DEQUEUED,
    "landed": EventKind.LANDED,
    "queued": EventKind.QUEUED,
    "landed_outside": EventKind.LANDED_OUTSIDE,
    "culprit": EventKind.CULPRIT,
    "paused": EventKind.PAUSED,
    "resumed": EventKind.RESUMED,
    "flake_seen": EventKind.FLAKE,
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


class Message(ReadModel, frozen=True):
    """The content of a message, before rendering. Texts of others are as GitHub has them."""

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
    outcome: str = ""
    """What a search for the culprit found."""

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
        number=_number(event),
        title=None if entry is None else entry.title[:_LONGEST],
        author=None if entry is None else entry.author,
        reason=event.reason,
        detail=_text(data, "detail") or _text(data, "check"),
        by=_text(data, "dequeued_by") or _text(data, "by"),
        until=_text(data, "until"),
        sha=_text(data, "sha"),
        before=_text(data, "before"),
        failing=_failing(event),
        outcome=(_text(data, "outcome") or "named") if kind is EventKind.CULPRIT else "",
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


def _number(event: TimelineEvent) -> int | None:
    """Return the pull request of an event: of a queue's event, its only member."""
    if event.number != WHOLE_QUEUE:
        return event.number
    members = event.data.get("members") if event.event == EventKind.FLAKE else None
    return members[0] if isinstance(members, list) and len(members) == 1 else None


def _failing(event: TimelineEvent) -> tuple[FailingCheck, ...]:
    """Return the failing checks of an ejection or a flake, with their pages where the event has them."""
    failed = event.reason is not None and REASONS[event.reason].outcome is Outcome.FAILED
    if not failed and event.event != EventKind.FLAKE:
        return ()
    names = event.data.get("checks") or ()
    found = FailingCheck.all_of(event.data) or tuple(FailingCheck(check=str(name)) for name in names)
    return tuple(replace(each, jobs=each.jobs[:_MOST_CHECKS]) for each in found[:_MOST_CHECKS])


_BEHIND_WEBHOOKS = -1
"""The priority of these jobs: a burst of messages delays no webhook."""

Creation = Callable[[], Message]
"""Creates the message of an event that some sink wants."""

_log = structlog.get_logger("imq.sinks")


class SinkJobs:
    """Implements the engine's ports `EventJobs` (`of_event`) and `FollowUp` (`of_dead_letter`)."""

    def __init__(self, sinks: Iterable[Sink]) -> None:
        self._sinks = tuple(sinks)

    def of_event(self, event: TimelineEvent, subject: Entry | Queue) -> Iterable[JobRequest]:
        """Name the jobs that an event causes."""
        if not self._sinks or (kind := kind_of(event)) is None:
            return ()
        return self._jobs(kind, subject.repository.full_name, event.base_branch, lambda: of_event(event, subject, kind))

    def of_dead_letter(self, letter: DeadLetter) -> Iterable[JobRequest]:
        """Name the jobs that a dead letter causes; one of a sink causes none, as two sinks would never end."""
        if not self._sinks or letter.job_type in SINK_JOBS.values():
            return ()
        message = of_dead_letter(letter)
        return self._jobs(EventKind.DEAD_LETTER, message.repository, None, lambda: message)

    def _jobs(self, kind: EventKind, repository: str | None, branch: str | None, create: Creation) -> list[JobRequest]:
        wanted = [sink for sink in self._sinks if wants(sink, kind, repository, branch)]
        try:
            return list(_requests(wanted, create)) if wanted else []
        except Exception:
            # A message may fail, the change of the queue must not.
            _log.exception("sink_message_failed", kind=kind.value)
            return []


def wants(sink: Sink, kind: EventKind, repository: str | None, branch: str | None) -> bool:
    """Return whether a sink wants an event of this repository and branch; if unknown, only one that gets all does."""
    if kind not in sink.events:
        return False
    if repository is None:
        return EVERY_REPOSITORY in sink.repositories
    return matches(sink, repository) and (
        branch is None or any(branch_matches(pattern, branch) for pattern in sink.branches)
    )


def matches(sink: Sink, repository: str) -> bool:
    """Return whether one of the sink's patterns matches a repository; GitHub's names have no case."""
    return any(branch_matches(pattern.casefold(), repository.casefold()) for pattern in sink.repositories)


def request_of(sink: Sink, message: Message) -> JobRequest:
    """Create the job that sends a message; the jobs of one sink share a process, which keeps their order."""
    content = {"sink": sink.name, "message": message.model_dump(mode="json", exclude_none=True)}
    return JobRequest(SINK_JOBS[sink.kind], f"sink:{sink.name}", content, priority=_BEHIND_WEBHOOKS)


def _requests(sinks: Iterable[Sink], create: Creation) -> Iterator[JobRequest]:
    message = create()
    for sink in sinks:
        yield request_of(sink, message)


PREFIX = "whsec_"
"""Begins a secret; its key follows in base64."""

_SHORTEST, _LONGEST_SIGNATURE = 24, 64
"""Bytes of a key, by the specification."""


def key_of(secret: str) -> bytes:
    """Return the key of a secret. Raises ValueError, whose message does not repeat the secret."""
    try:
        key = base64.b64decode(secret.removeprefix(PREFIX), validate=True) if secret.startswith(PREFIX) else b""
    except ValueError:
        key = b""
    if not _SHORTEST <= len(key) <= _LONGEST_SIGNATURE:
        raise ValueError(
            f"must be {PREFIX} and the base64 of {_SHORTEST} to {_LONGEST_SIGNATURE} random bytes: draw one with "
            f'`echo "{PREFIX}$(openssl rand -base64 32)"`'
        )
    return key


def headers(message_id: str, at: datetime, body: bytes, keys: Sequence[bytes]) -> dict[str, str]:
    """Return the three headers of a webhook that is sent at this instant."""
    timestamp = str(int(at.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    signatures = (base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode() for key in keys)
    return {
        "webhook-id": message_id,
        "webhook-timestamp": timestamp,
        "webhook-signature": " ".join(f"v1,{each}" for each in signatures),
    }
