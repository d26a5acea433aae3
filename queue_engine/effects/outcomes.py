"""Count how entries end, once their transaction is committed: landed or dequeued, and after how long."""

from queue_engine.core.observability.meter import Meter
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.timeline_event import TimelineEvent

ENDS = frozenset({EntryStatus.LANDED, EntryStatus.FAILED, EntryStatus.CANCELLED})
"""The events that end an entry."""


def count_outcome(meter: Meter, event: TimelineEvent) -> None:
    """Count the event if it ends an entry."""
    if event.entry_id is None or event.event not in ENDS:
        return
    if event.event == EntryStatus.LANDED:
        meter.count("landed")
        meter.observe("queue_time", event.data["queue"])
        meter.observe("front_time", event.data["front"])
    else:
        meter.count("dequeued", reason=str(event.reason))
