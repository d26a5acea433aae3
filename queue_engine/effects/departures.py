"""Store a departure with the event that ended its entry."""

from queue_engine.domain.model import Entry
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.rules.departures import departure_of
from queue_engine.store import Transaction


async def record_departure(tx: Transaction, end: TimelineEvent, entry: Entry | None) -> None:
    """Derive the departure from the timeline, and store it. `entry` None: it is deleted by now."""
    own = await tx.timeline.of_pull_request(end.repository_id, end.number)
    of_queue = await tx.timeline.blockers(end.repository_id, end.base_branch, up_to=end.id)
    first = min((event.at for event in own if event.entry_id == end.entry_id), default=end.at)
    joined = first if entry is None else entry.enqueued_at
    others = await tx.departures.left(end.repository_id, end.base_branch, joined, end.at)
    await tx.departures.put(departure_of(end, own, of_queue, others, entry))
