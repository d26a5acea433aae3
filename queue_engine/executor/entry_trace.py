"""Trace a pass by the delivery, or the call, that queued its entry."""

from collections.abc import Iterator
from contextlib import contextmanager

import structlog

from queue_engine.core.observability import trace
from queue_engine.domain.model import Entry


@contextmanager
def entry_trace(entry: Entry) -> Iterator[None]:
    """Continue the entry's trace, and add its delivery to every log line within."""
    delivery = {} if entry.delivery is None else {"delivery": entry.delivery}
    with trace.continued(entry.trace, "pass"), structlog.contextvars.bound_contextvars(**delivery):
        try:
            yield
        except Exception as error:
            # The caller logs the error outside of the trace.
            error.add_note(f"#{entry.number}, delivery {entry.delivery}, trace {trace.ids()['trace_id']}")
            raise
