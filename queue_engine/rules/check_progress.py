"""Count which of an entry's pending checks have completed, by webhooks and polls."""

from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import Run


def pending_checks(run: Run) -> tuple[str, ...]:
    """Return the checks that a run waits for, without those that have completed since the last poll."""
    return tuple(name for name in run.pending_checks if name not in run.completed_checks)


def tally(entry: Entry) -> tuple[int, int] | None:
    """Return how many checks have completed, of how many; None while IMQ does not know which checks it waits for."""
    if entry.status is not EntryStatus.CHECKING or not entry.run.pending_checks:
        return None
    ended = set(entry.run.completed_checks)
    return len(ended), len(ended | set(entry.run.pending_checks))


def progress(before: Entry, after: Entry) -> ProgressEvent | None:
    """Return the progress event for this change of an entry, if more checks have completed."""
    was, now = tally(before), tally(after)
    if was is not None and after.status is EntryStatus.READY:
        now = (was[1], was[1])
    if now is None or now == was:
        return None
    done, total = now
    return ProgressEvent(
        correlation_id=after.id,
        status=ProgressStatus.COMPLETED if done == total else ProgressStatus.IN_PROGRESS,
        message=f"{done} of {total} checks have reported",
        done=done,
        total=total,
    )
