"""Carry whose work a call belongs to and how urgent it is, from the top of a unit of work to the calls deep inside."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class RequestPriority(StrEnum):
    """Two are enough: what people wait for, and what nobody would miss for a while."""

    NOW = "now"
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The unit of work under way; without any it is nobody's, and urgent."""

    priority: RequestPriority = RequestPriority.NOW
    holder: str | None = None
    """Names the work, and is the same when it comes back after a failure: `job:7`."""
    again: timedelta | None = None
    """How soon at the latest it comes back if it fails now for a passing reason; None if that is not known."""
    yields_to: int = 0
    """How many pieces of more important work wait, for which it leaves room."""


_NOBODYS = RequestContext()
_work: ContextVar[RequestContext] = ContextVar("work", default=_NOBODYS)


def current_work() -> RequestContext:
    """The work under way in this task."""
    return _work.get()


@contextmanager
def working(
    priority: RequestPriority | None = None,
    *,
    holder: str | None = None,
    again: timedelta | None = None,
    yields_to: int | None = None,
) -> Iterator[None]:
    """What runs inside belongs to this work; what is not given stays as it is outside."""
    outer = _work.get()
    room = outer.yields_to if yields_to is None else yields_to
    token = _work.set(RequestContext(priority or outer.priority, holder or outer.holder, again or outer.again, room))
    try:
        yield
    finally:
        _work.reset(token)
