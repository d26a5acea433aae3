"""Progress goes to many sinks, and the failure of one does not concern another."""

from structlog.testing import capture_logs

from queue_engine.core.observability.progress import (
    NullNotifier,
    ProgressEvent,
    ProgressLog,
    ProgressNotifiers,
    ProgressStatus,
)

EVENT = ProgressEvent("process-1", ProgressStatus.IN_PROGRESS, "2 of 3 are done", 2, 3)


class RecordedSink:
    """Remembers, or fails."""

    def __init__(self, *, failing: bool = False) -> None:
        self.events: list[ProgressEvent] = []
        self._failing = failing

    async def on_progress(self, event: ProgressEvent) -> None:
        self.events.append(event)
        if self._failing:
            raise RuntimeError("full")


async def test_fanout_failing_sink_harms_neither_work_nor_others() -> None:
    """All sinks get it, in order; the log has the failure with the work that it was about."""
    first, second = RecordedSink(failing=True), RecordedSink()
    with capture_logs() as lines:
        await ProgressNotifiers((first, NullNotifier(), second)).on_progress(EVENT)
    assert first.events == second.events == [EVENT]
    assert [(line["sink"], line["correlation_id"]) for line in lines] == [("RecordedSink", "process-1")]


async def test_logged_progress_is_one_line_with_all_there_is() -> None:
    """At debug level: it is no news for an operator."""
    with capture_logs() as lines:
        await ProgressLog().on_progress(EVENT)
    assert lines == [
        {
            "event": "progress",
            "log_level": "debug",
            "correlation_id": "process-1",
            "status": "in_progress",
            "message": "2 of 3 are done",
            "done": 2,
            "total": 3,
        }
    ]
