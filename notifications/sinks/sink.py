"""A sink: where messages go, and which events it wants. Plain data whose secrets no `repr` shows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


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
    LANDED = "landed"
    QUEUED = "queued"
    DEQUEUED = "dequeued"
    PAUSED = "paused"
    RESUMED = "resumed"
    FROZEN = "frozen"
    TREE_MISMATCH = "tree_mismatch"
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
