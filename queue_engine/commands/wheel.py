"""The hand on the wheel by command: pause, resume, freeze, priority. Each is stored together with its answer."""

from datetime import timedelta
from typing import Any

from queue_engine import desk, steering
from queue_engine.commands.asked import Asked, misread
from queue_engine.commands.codes import ReplyCode
from queue_engine.commands.moments import until
from queue_engine.commands.reading import Typed, points
from queue_engine.engine import Change
from queue_engine.notice import Reply
from queue_engine.places import still_waiting
from queue_engine.standing import standstill


async def pause(change: Change, asked: Asked, typed: Typed) -> Reply:
    """Stop the queue of the base branch until somebody resumes it."""
    branch = asked.pull.base_branch
    done = await steering.pause(change, asked.repository, branch, by=asked.by, reason=typed.argument)
    facts: dict[str, Any] = {"depth": len(done.concerned), "detail": typed.argument}
    if (freeze := done.queue.beneath) is not None and freeze.until is not None:
        facts["then"] = freeze.until.isoformat()
    return asked.reply(typed, ReplyCode.PAUSED, **facts)


async def freeze(change: Change, asked: Asked, typed: Typed) -> Reply:
    """Stop it until an instant."""
    try:
        end, reason = until(typed.argument, asked.policy, change.now)
    except ValueError as fault:
        answer = misread(typed.line, typed.command, typed.argument)
        return answer.model_copy(update={"facts": {**answer.facts, "fault": str(fault)}})
    branch = asked.pull.base_branch
    done = await steering.freeze(change, asked.repository, branch, by=asked.by, until=end, reason=reason)
    facts: dict[str, Any] = {"depth": len(done.concerned), "until": end.isoformat(), "detail": reason}
    if done.queue.beneath is not None:
        facts["paused"] = True
    return asked.reply(typed, ReplyCode.FROZEN, **facts)


async def resume(change: Change, asked: Asked, typed: Typed) -> Reply:
    """Let it go on; what still holds it is said with the answer."""
    done = await steering.resume(change, asked.repository, asked.pull.base_branch, by=asked.by)
    facts: dict[str, Any] = {"depth": len(done.concerned)}
    if (still := standstill(done.queue, asked.policy, change.now)) is not None:
        facts |= {"still": still.reason.value, "detail": still.detail}
    if not done.changed:
        return asked.reply(typed, ReplyCode.NOT_PAUSED, accepted=False, **facts)
    if done.before is not None:
        facts["reason"] = done.before.reason.value
    return asked.reply(typed, ReplyCode.RESUMED, **facts)


async def prioritise(change: Change, asked: Asked, typed: Typed) -> Reply:
    """Move a queued pull request within its queue, and say whom that delays. Raises StaleVersion.

    One that waits for a place is given it when it joins.
    """
    tx, repository, number = change.tx, asked.repository, asked.pull.number
    priority = points(typed.argument) or 0
    if (waiting := await still_waiting(tx, repository.id, number)) is not None:
        await tx.held.stand_by(repository.id, number, vouched=waiting.vouched, priority=priority)
        ahead = await tx.held.ahead(waiting.queue_id, repository.id, number)
        return asked.reply(typed, ReplyCode.HELD, ahead=ahead, priority=priority)
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        return asked.reply(typed, ReplyCode.NOT_QUEUED, accepted=False)
    done = await desk.prioritise(change, entry, priority, asked.policy, by=asked.by, delivery=asked.delivery)
    seconds = _seconds(done.delay.by)
    overtakes = [[number, seconds] for number in done.delay.numbers]
    return asked.reply(
        typed,
        ReplyCode.PRIORITY,
        priority=priority,
        position=done.entry.position,
        depth=done.depth,
        overtakes=overtakes,
        interrupts=done.delay.interrupts,
        lost=_seconds(done.delay.lost),
    )


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else round(length.total_seconds())
