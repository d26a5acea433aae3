"""Carry whose work a call belongs to and how urgent it is, from the top of a unit of work to the calls deep inside."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum


class RequestPriority(StrEnum):
    """The priority of a request: work that people wait for, or background work."""

    NOW = "now"
    BACKGROUND = "background"


@dataclass(frozen=True, slots=True)
class WaitCount:
    """The more important work that waits: pieces that may be due at any moment, and those that this hour can finish."""

    soon: int = 0
    this_hour: int = 0


NOTHING_WAITS = WaitCount()

JOB_HOLDER = "job:"
"""How the name of a job's work begins; its id follows."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """The unit of work in progress; without one, requests are urgent."""

    priority: RequestPriority = RequestPriority.NOW
    holder: str | None = None
    """The name of the work, which stays the same after a failure: `job:7`."""
    again: timedelta | None = None
    """How soon it is retried at the latest after a transient failure; None if that is not known."""
    yields_to: WaitCount = NOTHING_WAITS
    """The more important work for which it leaves room."""


_NOBODYS = RequestContext()
_work: ContextVar[RequestContext] = ContextVar("work", default=_NOBODYS)


def current_work() -> RequestContext:
    """Return the work in progress in this task."""
    return _work.get()


@contextmanager
def working(
    priority: RequestPriority | None = None,
    *,
    holder: str | None = None,
    again: timedelta | None = None,
    yields_to: WaitCount | None = None,
) -> Iterator[None]:
    """Set the context of the work inside; parameters that are not given keep their values."""
    outer = _work.get()
    room = yields_to or outer.yields_to
    token = _work.set(RequestContext(priority or outer.priority, holder or outer.holder, again or outer.again, room))
    try:
        yield
    finally:
        _work.reset(token)
