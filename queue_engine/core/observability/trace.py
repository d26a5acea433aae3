"""Trace contexts of units of work: W3C, by the OpenTelemetry API alone.

Where an operator's SDK is active, each of these is one of its spans. Without one nothing is recorded, and the ids still
exist: they are on every line of the log, and are stored beside what waits, so that a trace outlives its process.

A delivery's trace id is its GUID. IMQ stores it with the job, the entry and the outbox item, and
continues it with each. One processor puts the ids on lines of the log (`bot/logs/configure.py`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Final
from uuid import UUID, uuid4

from opentelemetry.context import Context
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    StatusCode,
    TraceFlags,
    get_current_span,
    get_tracer,
    set_span_in_context,
    use_span,
)
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

_TRACER = get_tracer("imq")
_W3C = TraceContextTextMapPropagator()
_PARENT: Final = "traceparent"
_SAMPLED = TraceFlags(TraceFlags.SAMPLED)
_OUTSIDE = Context()
"""No trace: work that starts here starts one."""


def current() -> str | None:
    """The W3C traceparent of the work under way, of 55 characters; None outside of any."""
    carrier: dict[str, str] = {}
    _W3C.inject(carrier)
    return carrier.get(_PARENT)


def ids() -> Mapping[str, str]:
    """`trace_id` and `span_id` of the work under way, in hexadecimal digits; nothing outside of any."""
    here = get_current_span().get_span_context()
    if not here.is_valid:
        return {}
    return {"trace_id": f"{here.trace_id:032x}", "span_id": f"{here.span_id:016x}"}


def span(name: str) -> AbstractContextManager[None]:
    """A part of the work under way, or the beginning of a trace where there is none.

    `name` is a kind of work, such as `job webhook`, never a single case. No data goes along: what an error says may be
    secret, so that only its type is recorded.
    """
    return _within(None, name)


def continued(traceparent: str | None, name: str = "work") -> AbstractContextManager[None]:
    """Go on with a stored trace, under a span of its own; `span` if there is none, or none that can be read."""
    stored = _W3C.extract({_PARENT: traceparent or ""}, _OUTSIDE)
    readable = get_current_span(stored).get_span_context().is_valid
    return _within(stored if readable else None, name)


def of_delivery(guid: str) -> AbstractContextManager[None]:
    """The trace of a webhook's delivery. Its id is the GUID's 32 hexadecimal digits, so that one finds the other.

    An id that is no GUID has its SHA-256 stand for it. A repeated delivery belongs to the trace of the first.
    """
    return _within(set_span_in_context(NonRecordingSpan(root_of(guid)), _OUTSIDE), "delivery")


def root_of(guid: str) -> SpanContext:
    """Return the root of a delivery's trace, which is above all that the delivery causes."""
    digest = sha256(guid.encode()).digest()
    return SpanContext(
        trace_id=_trace_id_of(guid) or int.from_bytes(digest[:16], "big"),
        span_id=int.from_bytes(digest[16:24], "big"),
        is_remote=True,
        trace_flags=_SAMPLED,
    )


def context_of(traceparent: str | None) -> SpanContext | None:
    """Return the context that a stored traceparent names; None if there is none, or none that can be read."""
    found = get_current_span(_W3C.extract({_PARENT: traceparent or ""}, _OUTSIDE)).get_span_context()
    return found if found.is_valid else None


@contextmanager
def _within(parent: Context | None, name: str) -> Iterator[None]:
    started = _own(_TRACER.start_span(name, parent), get_current_span(parent).get_span_context())
    with use_span(started, end_on_exit=True, record_exception=False, set_status_on_exception=False):
        try:
            yield
        except Exception as error:
            started.set_status(StatusCode.ERROR, type(error).__name__)
            raise


def _own(started: Span, parent: SpanContext) -> Span:
    """The span, or ids of its own without a recorder: the API then hands the parent back."""
    given = started.get_span_context()
    if given.is_valid and given.span_id != parent.span_id:
        return started
    trace_id, flags = (parent.trace_id, parent.trace_flags) if parent.is_valid else (uuid4().int, _SAMPLED)
    return NonRecordingSpan(SpanContext(trace_id, uuid4().int >> 64, is_remote=False, trace_flags=flags))


def _trace_id_of(guid: str) -> int:
    """The trace id that a GUID is, zero (which no trace has) for anything else."""
    try:
        return UUID(guid).int
    except ValueError:
        return 0


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A span that has ended, under an id that was known before, even if another process saw its begin.

    `error` is the code of its failure, if it failed. OpenTelemetry's API has no such record: there a span begins and
    ends in one process. `recording` connects an exporter; without one nothing is recorded, and callers make no records.
    """

    name: str
    context: SpanContext
    parent: SpanContext | None
    started: datetime
    ended: datetime
    attributes: Mapping[str, str] = field(default_factory=dict)
    error: str | None = None


Record = Callable[[Sequence[TraceRecord]], None]
"""Takes ended spans. It must neither raise nor wait."""

_records: list[Record] = []


@contextmanager
def recording(record: Record) -> Iterator[None]:
    """Give all past spans to `record` meanwhile."""
    _records.append(record)
    try:
        yield
    finally:
        _records.remove(record)


def is_recorded() -> bool:
    """Whether anything records past spans."""
    return bool(_records)


def record(spans: Sequence[TraceRecord]) -> None:
    """Give spans to what records them."""
    for each in _records:
        each(spans)
