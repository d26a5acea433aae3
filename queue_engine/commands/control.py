"""Execute commands that control queues: pause, resume, freeze, priority. Each is stored with its reply."""

from datetime import timedelta
from typing import Any

from queue_engine.admission import enqueue
from queue_engine.commands.context import CommandContext, parse_failure
from queue_engine.commands.enqueue import not_ready_reply
from queue_engine.commands.instants import until
from queue_engine.commands.parse import CommandRequest, parse_priority
from queue_engine.control import pauses
from queue_engine.core.read_model import adapter
from queue_engine.domain.blocker import Blocker
from queue_engine.domain.notice import Reply
from queue_engine.domain.reasons import Reason
from queue_engine.domain.replies import ReplyKind
from queue_engine.effects.context import Change
from queue_engine.queries.queue_status import queue_blockers
from queue_engine.rules.depth import depth_within, held_behind, waits_for_room


async def pause(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Pause the queue of the base branch until somebody resumes it."""
    branch = context.pull.base_branch
    done = await pauses.pause(change, context.repository, branch, by=context.by, reason=request.argument)
    facts: dict[str, Any] = {"depth": len(done.concerned), "detail": request.argument}
    freeze = done.queue.pause(Reason.FROZEN)
    if freeze is not None and freeze.until is not None and not freeze.has_ended(change.now):
        facts["then"] = freeze.until.isoformat()
    return context.reply(request, ReplyKind.PAUSED, **facts)


async def freeze(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Freeze the queue until an instant."""
    try:
        end, reason = until(request.argument, context.policy, change.now)
    except ValueError as fault:
        answer = parse_failure(request.line, request.command, request.argument)
        return answer.model_copy(update={"facts": {**answer.facts, "fault": str(fault)}})
    branch = context.pull.base_branch
    done = await pauses.freeze(change, context.repository, branch, by=context.by, until=end, reason=reason)
    facts: dict[str, Any] = {"depth": len(done.concerned), "until": end.isoformat(), "detail": reason}
    if any(pause.reason is not Reason.FROZEN for pause in done.queue.pauses):
        facts["paused"] = True
    return context.reply(request, ReplyKind.FROZEN, **facts)


async def resume(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Resume the queue; the reply names its other blockers."""
    done = await pauses.resume(change, context.repository, context.pull.base_branch, by=context.by)
    facts: dict[str, Any] = {"depth": len(done.concerned)}
    if blockers := queue_blockers(done.queue, context.policy, change.now):
        facts["blockers"] = adapter(tuple[Blocker, ...]).dump_python(blockers, mode="json")
    if not done.changed:
        return context.reply(request, ReplyKind.NOT_PAUSED, accepted=False, **facts)
    facts["reason"] = done.lifted[0][0].value
    return context.reply(request, ReplyKind.RESUMED, **facts)


async def prioritise(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Set the priority of an entry, and reply which pull requests that delays. Raises StaleRecord."""
    tx, repository, number = change.tx, context.repository, context.pull.number
    priority = parse_priority(request.argument) or 0
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        return context.reply(request, ReplyKind.NOT_QUEUED, accepted=False)
    done = await enqueue.prioritise(change, entry, priority, context.policy, by=context.by, delivery=context.delivery)
    if not done.entry.is_ready:
        return not_ready_reply(context, request, done.entry, priority=priority)
    if waits_for_room(done.entry.position, context.policy):
        ahead = held_behind(done.entry.position, context.policy)
        return context.reply(request, ReplyKind.HELD, ahead=ahead, priority=priority)
    seconds = _seconds(done.delay.by)
    overtakes = [[number, seconds] for number in done.delay.numbers]
    return context.reply(
        request,
        ReplyKind.PRIORITY,
        priority=priority,
        position=done.entry.position,
        depth=depth_within(done.depth, context.policy),
        overtakes=overtakes,
        preempts=done.delay.preempts,
        lost=_seconds(done.delay.lost),
    )


def _seconds(length: timedelta | None) -> int | None:
    return None if length is None else round(length.total_seconds())
