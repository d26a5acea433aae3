"""Execute commands that control queues: pause, resume, freeze, priority. Each is stored with its reply."""

from datetime import timedelta
from typing import Any

from queue_engine.admission import enqueue
from queue_engine.commands.context import CommandContext, misread
from queue_engine.commands.instants import until
from queue_engine.commands.parse import CommandRequest, parse_priority
from queue_engine.commands.query import blocker_facts
from queue_engine.control import pauses
from queue_engine.domain.notice import Reply
from queue_engine.domain.reasons import Reason
from queue_engine.domain.replies import ReplyKind
from queue_engine.effects.context import Change
from queue_engine.effects.queue_depth import find_held
from queue_engine.queries.queue_status import queue_blockers


async def pause(change: Change, asked: CommandContext, typed: CommandRequest) -> Reply:
    """Stop the queue of the base branch until somebody resumes it."""
    branch = asked.pull.base_branch
    done = await pauses.pause(change, asked.repository, branch, by=asked.by, reason=typed.argument)
    facts: dict[str, Any] = {"depth": len(done.concerned), "detail": typed.argument}
    freeze = done.queue.pause(Reason.FROZEN)
    if freeze is not None and freeze.until is not None and not freeze.has_ended(change.now):
        facts["then"] = freeze.until.isoformat()
    return asked.reply(typed, ReplyKind.PAUSED, **facts)


async def freeze(change: Change, asked: CommandContext, typed: CommandRequest) -> Reply:
    """Stop it until an instant."""
    try:
        end, reason = until(typed.argument, asked.policy, change.now)
    except ValueError as fault:
        answer = misread(typed.line, typed.command, typed.argument)
        return answer.model_copy(update={"facts": {**answer.facts, "fault": str(fault)}})
    branch = asked.pull.base_branch
    done = await pauses.freeze(change, asked.repository, branch, by=asked.by, until=end, reason=reason)
    facts: dict[str, Any] = {"depth": len(done.concerned), "until": end.isoformat(), "detail": reason}
    if any(pause.reason is not Reason.FROZEN for pause in done.queue.pauses):
        facts["paused"] = True
    return asked.reply(typed, ReplyKind.FROZEN, **facts)


async def resume(change: Change, asked: CommandContext, typed: CommandRequest) -> Reply:
    """Let it go on; what still holds it is said with the answer."""
    done = await pauses.resume(change, asked.repository, asked.pull.base_branch, by=asked.by)
    facts: dict[str, Any] = {"depth": len(done.concerned)}
    if blockers := queue_blockers(done.queue, asked.policy, change.now):
        facts["halts"] = [blocker_facts(blocker) for blocker in blockers]
    if not done.changed:
        return asked.reply(typed, ReplyKind.NOT_PAUSED, accepted=False, **facts)
    facts["reason"] = done.lifted[0][0].value
    return asked.reply(typed, ReplyKind.RESUMED, **facts)


async def prioritise(change: Change, asked: CommandContext, typed: CommandRequest) -> Reply:
    """Move a queued pull request within its queue, and say whom that delays. Raises StaleRecord.

    One that waits for a place is given it when it joins.
    """
    tx, repository, number = change.tx, asked.repository, asked.pull.number
    priority = parse_priority(typed.argument) or 0
    if (waiting := await find_held(tx, repository.id, number)) is not None:
        await tx.held.stand_by(repository.id, number, trusted_labels=waiting.trusted_labels, priority=priority)
        ahead = await tx.held.ahead(waiting.queue_id, repository.id, number)
        return asked.reply(typed, ReplyKind.HELD, ahead=ahead, priority=priority)
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        return asked.reply(typed, ReplyKind.NOT_QUEUED, accepted=False)
    done = await enqueue.prioritise(change, entry, priority, asked.policy, by=asked.by, delivery=asked.delivery)
    seconds = _seconds(done.delay.by)
    overtakes = [[number, seconds] for number in done.delay.numbers]
    return asked.reply(
        typed,
        ReplyKind.PRIORITY,
        priority=priority,
        position=done.entry.position,
        depth=done.depth,
        overtakes=overtakes,
        interrupts=done.delay.interrupts,
        lost=_seconds(done.delay.lost),
    )


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else round(length.total_seconds())
