"""Report the progress of work while it runs, and count and time events.

It promises nothing: what must not be lost is in the database. A sink that fails harms neither the work nor the others.

Progress is reported outside of any transaction. Its sinks are the log (debug), the event bus and the check run. A check
run's update waits for one of two instants (`Policy.progress_edits`), so that what ends sooner costs no request.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

import structlog

_log = structlog.get_logger("imq.progress")


class ProgressStatus(StrEnum):
    """Whether there is more to come."""

    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class ProgressEvent:
    """How far something is: `done` of `total`. `correlation_id` names the work, `message` is for people."""

    correlation_id: str
    status: ProgressStatus
    message: str
    done: int
    total: int


class ProgressNotifier(Protocol):
    """Receives progress. It is waited for, outside of any transaction: it should not take long."""

    async def on_progress(self, event: ProgressEvent) -> None:
        """Something has gone on."""


class NullNotifier:
    """Reports nothing: for tests and tools without subscribers."""

    async def on_progress(self, event: ProgressEvent) -> None:
        """Do nothing."""


class ProgressLog:
    """Logs progress, at debug level: progress is no news for an operator."""

    async def on_progress(self, event: ProgressEvent) -> None:
        """One line."""
        _log.debug(
            "progress",
            correlation_id=event.correlation_id,
            status=event.status.value,
            message=event.message,
            done=event.done,
            total=event.total,
        )


class ProgressNotifiers:
    """Calls several sinks, one after another; never raises for a sink's fault: that is logged."""

    def __init__(self, sinks: Iterable[ProgressNotifier]) -> None:
        self._sinks = tuple(sinks)

    async def on_progress(self, event: ProgressEvent) -> None:
        """Tell everybody."""
        for sink in self._sinks:
            try:
                await sink.on_progress(event)
            except Exception:
                _log.exception("progress_sink_failed", sink=type(sink).__name__, correlation_id=event.correlation_id)


class Meter(Protocol):
    """Takes figures. It must neither raise nor wait."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Something happened `amount` times."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Something took this long, in seconds."""


class NullMeter:
    """Counts nothing: for tests and tools without metrics."""

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        """Do nothing."""

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Do nothing."""
