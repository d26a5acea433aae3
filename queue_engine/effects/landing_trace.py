"""Make the spans of an entry that ended: one for its time in the queue, and in it one for each status.

The first is the root of the trace that the delivery of the label began, so that the spans of its jobs, passes and
requests are below. An entry that a call of the API queued is below the span of that call.
"""

from collections.abc import Sequence
from hashlib import sha256
from itertools import pairwise

from opentelemetry.trace import SpanContext

from queue_engine.core.observability import trace
from queue_engine.core.observability.trace_record import TraceRecord
from queue_engine.domain.departure import ENDS
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.timeline_event import TimelineEvent

_BEGINS = frozenset({"queued", "preempted", *EntryStatus}) - ENDS
"""Events that begin a span, which lasts until the next of them, or until the end."""


def spans_of(entry: Entry, events: Sequence[TimelineEvent]) -> list[TraceRecord]:
    """Return the spans of an entry; none if it has no trace, or has not ended.

    `events` are those of its pull request, oldest first. The ids depend on the entry alone.
    """
    queued_in = trace.context_of(entry.trace)
    own = [event for event in events if event.entry_id == entry.id]
    end = next((event for event in reversed(own) if event.event in ENDS), None)
    if queued_in is None or end is None:
        return []
    root, parent = _root(entry, queued_in)
    whole = TraceRecord(
        "landing" if end.event == EntryStatus.LANDED else "dequeued",
        root,
        parent,
        entry.enqueued_at,
        max(end.at, entry.enqueued_at),
        _attributes(entry, end),
        error=str(end.reason) if end.event == EntryStatus.FAILED else None,
    )
    begun = [event for event in own if event.event in _BEGINS]
    parts = [
        TraceRecord(event.event, _context(root, f"{entry.id} {event.id}"), root, event.at, max(following.at, event.at))
        for event, following in pairwise([*begun, end])
    ]
    return [whole, *parts]


def _root(entry: Entry, queued_in: SpanContext) -> tuple[SpanContext, SpanContext | None]:
    """Return the context of the entry's span, and of the span above it."""
    delivered = None if entry.delivery is None else trace.root_of(entry.delivery)
    if delivered is not None and delivered.trace_id == queued_in.trace_id:
        return _context(queued_in, span_id=delivered.span_id), None
    return _context(queued_in, entry.id), queued_in


def _context(within: SpanContext, name: str = "", *, span_id: int | None = None) -> SpanContext:
    own = span_id or int.from_bytes(sha256(name.encode()).digest()[:8], "big")
    return SpanContext(within.trace_id, own, is_remote=False, trace_flags=within.trace_flags)


def _attributes(entry: Entry, end: TimelineEvent) -> dict[str, str]:
    """Return which pull request it was, by OpenTelemetry's names (registry of attributes, "VCS"), and its outcome."""
    attributes = {
        "vcs.owner.name": entry.repository.owner,
        "vcs.repository.name": entry.repository.name,
        "vcs.change.id": str(entry.number),
        "vcs.ref.base.name": entry.base_branch,
        "imq.outcome": end.event,
    }
    return attributes if end.reason is None else attributes | {"imq.reason": str(end.reason)}
