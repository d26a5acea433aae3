"""One event of a pull request or of a queue: made by the engine, stored in the timeline, published, and shown."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from queue_engine.domain.reasons import Reason

WHOLE_QUEUE = 0
"""In place of a pull request's number: the event concerns a whole queue."""


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """An event of a pull request or, with `number` `WHOLE_QUEUE`, of its queue, and the reason."""

    at: datetime
    event: str
    """The event's name, such as `queued` or `landed`."""
    repository_id: int
    base_branch: str
    number: int
    entry_id: str | None = None
    reason: Reason | None = None
    delivery: str | None = None
    """The webhook that caused the event."""
    data: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0
    """The ascending number in the timeline; 0 until the event is stored."""
