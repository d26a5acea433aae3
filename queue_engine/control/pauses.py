"""Pause, freeze, resume and unfreeze a queue for maintainers.

Everything happens within the caller's transaction, which stores the answer too. A repeated request changes nothing. The
pass that follows at once announces the change.
"""

from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from queue_engine.domain.blocker import BlockerNotices
from queue_engine.domain.model import PAUSES, Pause, Queue, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change

_OF_BASE = frozenset({Reason.BASE_RED, Reason.TIP_UNTESTED})


@dataclass(frozen=True, slots=True)
class ControlResult:
    """The queue after the request, and the pull requests in it."""

    queue: Queue
    changed: bool
    """False: the queue had this state already."""
    concerned: tuple[int, ...]
    """Numbers of the pull requests in the queue, in order."""
    lifted: tuple[tuple[Reason, str], ...] = ()
    """Each blocker that was lifted, with its detail, the most important first."""


class Control(Protocol):
    """One of the functions below, with its other arguments filled in."""

    async def __call__(self, change: Change, repository: Repository, base_branch: str, /, *, by: str) -> ControlResult:
        """Control the queue of this branch for the person with this login."""
        ...


async def pause(
    change: Change, repository: Repository, base_branch: str, *, by: str, reason: str = ""
) -> ControlResult:
    """Pause the queue of this branch until a maintainer resumes it."""
    return await _pause(change, repository, base_branch, Pause(Reason.PAUSED_BY_HAND, reason, change.now, None, by))


async def freeze(
    change: Change, repository: Repository, base_branch: str, *, by: str, until: datetime, reason: str = ""
) -> ControlResult:
    """Freeze this branch for all but exempt entries until an instant, in place of a maintainer's earlier freeze."""
    return await _pause(change, repository, base_branch, Pause(Reason.FROZEN, reason, change.now, until, by))


async def resume(change: Change, repository: Repository, base_branch: str, *, by: str | None) -> ControlResult:
    """Lift every pause, by a maintainer or by IMQ, and try a red base again. `by` None: the operator asks.

    A freeze by a maintainer, or the tip of a train that stopped half-way, is lifted only where no pause is in force:
    under a pause it takes a second request.
    `blockers_of` returns the blockers afterwards.
    """
    tx, now = change.tx, change.now
    queue = await tx.queues.find_or_create(repository, base_branch, now)
    pauses = [pause for pause in queue.pauses if not pause.has_ended(now)]
    wanted = [pause for pause in pauses if pause.reason is not Reason.FROZEN] or pauses
    lifted = [(pause.reason, pause.detail) for pause in wanted]
    stopped = queue.red is not None and queue.red.untested and bool(queue.red.check)
    if queue.red is not None and not (stopped and lifted):
        await tx.red_bases.note(queue.id, None)
        await _mark_recorded(change, queue)
        if not (lifted and queue.red.untested):
            lifted.append((Reason.TIP_UNTESTED if stopped else Reason.BASE_RED, queue.red.check))
    return await _lift(change, queue, lifted, by=by)


async def unfreeze(change: Change, repository: Repository, base_branch: str, *, by: str) -> ControlResult:
    """Lift the freeze by a maintainer, if there is one, and nothing else."""
    queue = await change.tx.queues.find_or_create(repository, base_branch, change.now)
    frozen = queue.pause(Reason.FROZEN)
    lifted = [] if frozen is None or frozen.has_ended(change.now) else [(Reason.FROZEN, frozen.detail)]
    return await _lift(change, queue, lifted, by=by)


async def _mark_recorded(change: Change, queue: Queue) -> None:
    """Mark the red base as recorded, so that the pass that announces its end does not record the end again."""
    if (known := BlockerNotices.from_json(queue.announced)) is not None:
        blockers = (replace(each, recorded=each.recorded or each.reason in _OF_BASE) for each in known.blockers)
        await change.tx.queues.note_announced(queue.id, replace(known, blockers=tuple(blockers)).to_json())


async def _lift(change: Change, queue: Queue, lifted: list[tuple[Reason, str]], *, by: str | None) -> ControlResult:
    if not lifted:
        return await _result(change, queue)
    pauses = [reason for reason, _ in lifted if reason in PAUSES]
    await change.tx.pauses.lift(queue.id, *pauses, now=change.now)
    for reason, detail in lifted:
        await change.record("resumed", queue, reason=reason, data={"by": by, "detail": detail, "until": None})
    return replace(await _result(change, queue), changed=True, lifted=tuple(lifted))


async def _pause(change: Change, repository: Repository, base_branch: str, wanted: Pause) -> ControlResult:
    queue = await change.tx.queues.find_or_create(repository, base_branch, change.now)
    present = queue.pause(wanted.reason)
    same = present is not None and (present.detail, present.until) == (wanted.detail, wanted.until)
    if same or wanted.has_ended(change.now):
        return await _result(change, queue)
    await change.tx.pauses.put(queue.id, wanted)
    data = {"by": wanted.by, "detail": wanted.detail, "until": wanted.until and wanted.until.isoformat()}
    await change.record("paused", queue, reason=wanted.reason, data=data)
    return replace(await _result(change, queue), changed=True)


async def _result(change: Change, queue: Queue) -> ControlResult:
    present = await change.tx.queues.get(queue.id)
    assert present is not None
    entries = await change.tx.entries.of_queue(queue.id)
    return ControlResult(present, False, tuple(entry.number for entry in entries))
