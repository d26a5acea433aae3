"""The hand on the wheel: a person pauses, freezes or resumes a queue, whether anything stands in it or not.

Everything happens within the caller's transaction, so that whoever asked is answered in the same one. Doing it twice is
doing it once. Those who wait are told by the pass that follows at once, which knows what else holds the queue.
"""

from dataclasses import dataclass, replace
from datetime import datetime

from queue_engine import journal
from queue_engine.engine import Change
from queue_engine.model import Pause, Queue, Repository
from queue_engine.reasons import Reason
from queue_engine.standing import Told, ended


@dataclass(frozen=True, slots=True)
class Steered:
    """What became of it: the queue as it is now, and whom that concerns."""

    queue: Queue
    changed: bool
    """False: it was so already."""
    before: Pause | None
    """The pause that stood, if one did."""
    concerned: tuple[int, ...]
    """Numbers of the pull requests that stand in the queue, in order."""
    cause: tuple[Reason, str] | None = None
    """What was lifted, with its detail: a pause, or a base that did not pass."""


async def pause(change: Change, repository: Repository, base_branch: str, *, by: str, reason: str = "") -> Steered:
    """Let the queue of this branch stand still until somebody resumes it."""
    return await _halt(change, repository, base_branch, Pause(Reason.PAUSED_BY_HAND, reason, change.now, None, by))


async def freeze(
    change: Change, repository: Repository, base_branch: str, *, by: str, until: datetime, reason: str = ""
) -> Steered:
    """Let nothing land on this branch before `until`, but what is exempt from freezes.

    A queue that stands still for another reason does so until that is resolved; an instant that has passed changes
    nothing.
    """
    return await _halt(change, repository, base_branch, Pause(Reason.FROZEN, reason, change.now, until, by))


async def resume(change: Change, repository: Repository, base_branch: str, *, by: str | None) -> Steered:
    """Let the queue go on: its pause is lifted, and a base that did not pass is tried anew. `by` None: the operator.

    What `queue_engine.standing.standstill` still says afterwards only its end, or another configuration, lifts.
    """
    tx = change.tx
    queue = await tx.queues.find_or_create(repository, base_branch, change.now)
    if queue.paused is None and queue.red is None:
        return await _steered(change, queue, changed=False)
    reason, detail = Reason.BASE_RED, queue.red.check if queue.red is not None else ""
    if queue.paused is not None:
        reason, detail = queue.paused.reason, queue.paused.detail
    if queue.red is not None:
        await tx.red_bases.note(queue.id, None)
    if (told := Told.read(queue.told)) is not None:
        await tx.queues.note_told(queue.id, replace(told, noted=True).written())
    await tx.queues.resume(queue.id, change.now)
    data = {"by": by, "detail": detail, "until": None}
    change.happenings.append(
        await journal.note(tx, change.now, "resumed", repository, base_branch, 0, reason=reason, data=data)
    )
    return replace(await _steered(change, queue, changed=True), cause=(reason, detail))


async def _halt(change: Change, repository: Repository, base_branch: str, wanted: Pause) -> Steered:
    tx = change.tx
    queue = await tx.queues.find_or_create(repository, base_branch, change.now)
    if not _adds(queue.paused, wanted):
        return await _steered(change, queue, changed=False)
    await tx.queues.pause(queue.id, wanted)
    data = {"by": wanted.by, "detail": wanted.detail, "until": wanted.until and wanted.until.isoformat()}
    change.happenings.append(
        await journal.note(tx, change.now, "paused", repository, base_branch, 0, reason=wanted.reason, data=data)
    )
    return await _steered(change, queue, changed=True)


def _adds(standing: Pause | None, wanted: Pause) -> bool:
    """Whether this pause is anything new: a freeze replaces a freeze, a pause by hand both; an alarm stays."""
    if ended(wanted, wanted.since):
        return False
    if standing is None or ended(standing, wanted.since):
        return True
    if standing.reason not in _BY_HAND or (wanted.reason, standing.reason) == (Reason.FROZEN, Reason.PAUSED_BY_HAND):
        return False
    return (standing.reason, standing.detail, standing.until) != (wanted.reason, wanted.detail, wanted.until)


_BY_HAND = frozenset({Reason.PAUSED_BY_HAND, Reason.FROZEN})


async def _steered(change: Change, queue: Queue, *, changed: bool) -> Steered:
    now_so = await change.tx.queues.get(queue.id)
    assert now_so is not None
    entries = await change.tx.entries.of_queue(queue.id)
    return Steered(now_so, changed, queue.paused, tuple(entry.number for entry in entries))
