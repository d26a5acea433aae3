"""Count which pending checks of an entry or a run have completed, by webhooks and polls."""

from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.candidate_run import CandidateRun
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import Run


def pending_checks(run: Run) -> tuple[str, ...]:
    """Return the checks that a run waits for, without those that have completed since the last poll."""
    return tuple(name for name in run.pending_checks if name not in run.completed_checks)


def tally(entry: Entry) -> tuple[int, int] | None:
    """Return how many checks have completed, of how many; None while IMQ does not know which checks it waits for."""
    if entry.status is not EntryStatus.CHECKING or not entry.run.pending_checks:
        return None
    return count_checks(entry.run)


def count_checks(run: Run) -> tuple[int, int]:
    """Return how many checks of a run have completed, of how many that IMQ knows."""
    ended = set(run.completed_checks)
    return len(ended), len(ended | set(run.pending_checks))


def run_progress(run: CandidateRun, status: ProgressStatus = ProgressStatus.IN_PROGRESS) -> ProgressEvent | None:
    """Return how far the checks of a run are, under the id of its candidate; None while IMQ knows of no check."""
    done, total = count_checks(run.test)
    if run.candidate is None or total == 0:
        return None
    return _event(run.candidate, status, total if status is ProgressStatus.COMPLETED else done, total)


def progress(before: Entry, after: Entry) -> ProgressEvent | None:
    """Return the progress event for this change of an entry, if more checks have completed."""
    was, now = tally(before), tally(after)
    if was is not None and after.status is EntryStatus.READY:
        now = (was[1], was[1])
    if now is None or now == was:
        return None
    status = ProgressStatus.COMPLETED if now[0] == now[1] else ProgressStatus.IN_PROGRESS
    return _event(after.id, status, *now)


def _event(correlation_id: str, status: ProgressStatus, done: int, total: int) -> ProgressEvent:
    return ProgressEvent(
        correlation_id=correlation_id,
        status=status,
        message=f"{done} of {total} checks have reported",
        done=done,
        total=total,
    )
