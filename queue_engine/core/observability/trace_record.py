"""Record spans when they end, under ids that were known before, even if another process saw their begin.

OpenTelemetry's API cannot do that: there a span begins and ends in one process. `recording` connects an exporter;
without one nothing is recorded, and callers make no records.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime

from opentelemetry.trace import SpanContext


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """A span that has ended. `error` is the code of its failure, if it failed."""

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
