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
    """Something that happened to a pull request or, with `number` `WHOLE_QUEUE`, to its queue, and why."""

    at: datetime
    event: str
    """Its word, such as `queued` or `landed`."""
    repository_id: int
    base_branch: str
    number: int
    entry_id: str | None = None
    reason: Reason | None = None
    delivery: str | None = None
    """The webhook that caused it."""
    data: Mapping[str, Any] = field(default_factory=dict)
    id: int = 0
    """Its place in the timeline, which grows; 0 until it is stored."""
