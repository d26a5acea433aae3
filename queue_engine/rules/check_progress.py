"""Count which of an entry's awaited checks have reported, by webhooks and reads."""

from queue_engine.core.observability.progress import ProgressEvent, ProgressStatus
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.run import Run


def pending_checks(run: Run) -> tuple[str, ...]:
    """The checks that a run waits for, without those that have completed since the last look."""
    return tuple(name for name in run.pending_checks if name not in run.completed_checks)


def tally(entry: Entry) -> tuple[int, int] | None:
    """How many checks have ended, of how many; None while it is not known what is awaited."""
    if entry.status is not EntryStatus.CHECKING or not entry.run.pending_checks:
        return None
    ended = set(entry.run.completed_checks)
    return len(ended), len(ended | set(entry.run.pending_checks))


def progress(before: Entry, after: Entry) -> ProgressEvent | None:
    """What to tell of this change of an entry, if its checks have gone on; its id is the correlation."""
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
