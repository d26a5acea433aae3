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
from queue_engine.standing import Told, ended, freeze_by_hand


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

    It takes the place of another freeze by hand. A queue that stands still for another reason does so until that is
    resolved, and is frozen beneath it; an instant that has passed changes nothing.
    """
    return await _halt(change, repository, base_branch, Pause(Reason.FROZEN, reason, change.now, until, by))


async def resume(change: Change, repository: Repository, base_branch: str, *, by: str | None) -> Steered:
    """Let the queue go on: its pause is lifted, and a base that did not pass is tried anew. `by` None: the operator.

    A freeze by hand that stands beneath a pause holds from then on; resuming once more lifts it. What
    `queue_engine.standing.standstill` says of it all afterwards is in the way still.
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
    if queue.beneath is not None and (freeze := freeze_by_hand(queue, change.now)) is not None:
        await tx.queues.pause(queue.id, freeze)
    else:
        await tx.queues.resume(queue.id, change.now)
    return replace(await _lifted(change, queue, reason, detail, by=by), cause=(reason, detail))


async def thaw(change: Change, repository: Repository, base_branch: str, *, by: str) -> Steered:
    """Lift the freeze by hand, if there is one, and nothing else."""
    queue = await change.tx.queues.find_or_create(repository, base_branch, change.now)
    if queue.beneath is None or queue.paused is None:
        frozen = queue.paused is not None and queue.paused.reason is Reason.FROZEN
        if frozen:
            return await resume(change, repository, base_branch, by=by)
        return await _steered(change, queue, changed=False)
    await change.tx.queues.pause(queue.id, queue.paused)
    return await _lifted(change, queue, Reason.FROZEN, queue.beneath.detail, by=by)


async def _lifted(change: Change, queue: Queue, reason: Reason, detail: str, *, by: str | None) -> Steered:
    data, now = {"by": by, "detail": detail, "until": None}, change.now
    change.happenings.append(
        await journal.note(change.tx, now, "resumed", queue.repository, queue.base_branch, 0, reason=reason, data=data)
    )
    return await _steered(change, queue, changed=True)


async def _halt(change: Change, repository: Repository, base_branch: str, wanted: Pause) -> Steered:
    tx = change.tx
    queue = await tx.queues.find_or_create(repository, base_branch, change.now)
    standing, freeze = queue.paused, freeze_by_hand(queue, change.now)
    if standing is not None and ended(standing, change.now):
        standing = None
    if not _adds(standing, freeze, wanted):
        return await _steered(change, queue, changed=False)
    if wanted.reason is not Reason.FROZEN:
        await tx.queues.pause(queue.id, wanted, beneath=freeze)
    elif standing is None or standing.reason is Reason.FROZEN:
        await tx.queues.pause(queue.id, wanted)
    else:
        # Whoever resumes it finds the freeze that somebody asked for meanwhile.
        await tx.queues.pause(queue.id, standing, beneath=wanted)
    data = {"by": wanted.by, "detail": wanted.detail, "until": wanted.until and wanted.until.isoformat()}
    change.happenings.append(
        await journal.note(tx, change.now, "paused", repository, base_branch, 0, reason=wanted.reason, data=data)
    )
    return await _steered(change, queue, changed=True)


def _adds(standing: Pause | None, freeze: Pause | None, wanted: Pause) -> bool:
    """Whether this pause is anything new, beside what stands: to an alarm, which somebody has to resume, none is."""
    if ended(wanted, wanted.since):
        return False
    if wanted.reason is Reason.FROZEN:
        return freeze is None or (freeze.detail, freeze.until) != (wanted.detail, wanted.until)
    if standing is None or standing.reason is Reason.FROZEN:
        return True
    return standing.reason is Reason.PAUSED_BY_HAND and standing.detail != wanted.detail


async def _steered(change: Change, queue: Queue, *, changed: bool) -> Steered:
    now_so = await change.tx.queues.get(queue.id)
    assert now_so is not None
    entries = await change.tx.entries.of_queue(queue.id)
    return Steered(now_so, changed, queue.paused, tuple(entry.number for entry in entries))
