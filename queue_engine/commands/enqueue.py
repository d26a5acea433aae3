"""Queue and dequeue by command. The rules are those of labels."""

from functools import partial
from typing import Any

from queue_engine.admission import enqueue
from queue_engine.admission.command_consent import consents
from queue_engine.admission.dequeue import NotQueued, authorize_dequeue, dequeue_by_user
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.context import CommandContext
from queue_engine.commands.parse import CommandRequest
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.failing_check import as_data
from queue_engine.domain.model import Entry
from queue_engine.domain.notice import Reply
from queue_engine.domain.reasons import Reason
from queue_engine.domain.replies import ReplyKind
from queue_engine.effects.context import Change
from queue_engine.rules.depth import depth_within, held_behind, waits_for_room


async def queue(context: CommandContext, request: CommandRequest) -> Reply:
    """Queue the head at the time of the comment, as the label does. Raises GitHubError."""
    entry = await context.load_entry()
    if entry is not None:
        return await _queued_reply(context, request, entry, _joined(context, entry))
    return await _enqueue(context, request, await _consented(context))


async def requeue(context: CommandContext, request: CommandRequest) -> Reply:
    """Dequeue and queue again at the end, with the current head and new consent. Raises GitHubError, StaleRecord."""
    entry = await context.load_entry()
    if entry is not None and entry.delivery == context.delivery:
        return await _queued_reply(context, request, entry, ReplyKind.REQUEUED)
    if entry is not None and entry.run.merge_requested_at is not None:
        return context.reply(request, ReplyKind.LANDING, accepted=False)
    # The head that it was queued with, or IMQ's own update of it: nobody has pushed since.
    bound = entry is not None and entry.head_proved and context.pull.head_sha == entry.head
    return await _enqueue(context, request, context.pull.head_sha if bound else await _consented(context))


async def _enqueue(context: CommandContext, request: CommandRequest, head: str | None) -> Reply:
    """Queue this head, at the end if it is queued; None: no one has consented to the current one."""
    if head is None:
        return context.reply(request, ReplyKind.CHANGED_SINCE, accepted=False)
    again = context.case.entry is not None
    call = enqueue.requeue if again else partial(enqueue.enqueue, may_wait=True)
    try:
        await context.permission()
        by, source = context.by, ConsentKind.COMMAND
        queued = await call(context.engine, context.case, by=by, head_sha=head, taken=context.taken, source=source)
    except RejectionError as refused:
        return _refused(context, request, refused.reason, refused.detail)
    code = ReplyKind.REQUEUED if again else _joined(context, queued.entry)
    return await _queued_reply(context, request, queued.entry, code)


async def prepare_dequeue(context: CommandContext, request: CommandRequest) -> Reply | None:
    """Ask whether the person may dequeue it; reply if there is nothing to dequeue. Raises GitHubError."""
    try:
        await context.load_entry()
        context.dequeue = await authorize_dequeue(context.engine, context.case, by=context.by, taken=context.taken)
    except NotQueued:
        return context.reply(request, ReplyKind.NOT_QUEUED, accepted=False)
    return None


async def unqueue(change: Change, context: CommandContext, request: CommandRequest) -> Reply:
    """Dequeue the pull request. Raises StaleRecord when it changes at the same time."""
    assert context.dequeue is not None
    try:
        left = await dequeue_by_user(change, context.dequeue)
    except NotQueued:
        return context.reply(request, ReplyKind.NOT_QUEUED, accepted=False)
    return context.reply(request, ReplyKind.LEFT) if left else context.reply(request, ReplyKind.LANDING, accepted=False)


async def _consented(context: CommandContext) -> str | None:
    """Return the head that the commenter saw; None if it may have changed since (P4).

    GitHub does not tell which head a comment was made on. It does tell when a pull request changed last, and a push
    changes it: what has not changed since the comment has the head that stood there then. A review names its head.
    """
    if context.reviewed is not None:
        return context.pull.head_sha if context.reviewed == (context.pull.head_sha, context.pull.base_branch) else None
    changed, head = context.pull.updated_at, context.pull.head_sha
    if context.at is None:
        return head if changed is None else None
    if changed is not None and changed > context.at:
        return None
    known = await consents(context.engine, context.repository, context.pull.number, head, context.at)
    return head if known else None


def _refused(context: CommandContext, request: CommandRequest, reason: Reason, detail: str | None) -> Reply:
    label = context.policy.trigger_label
    return context.reply(
        request, ReplyKind.REFUSED, accepted=False, reason=reason.value, label=label, detail=detail or ""
    )


def _joined(context: CommandContext, entry: Entry) -> ReplyKind:
    """Return the reply for a queued pull request: whether this comment queued it."""
    return ReplyKind.QUEUED if entry.delivery == context.delivery else ReplyKind.ALREADY_QUEUED


async def _queued_reply(context: CommandContext, request: CommandRequest, entry: Entry, code: ReplyKind) -> Reply:
    if not entry.is_ready:
        return not_ready_reply(context, request, entry)
    async with context.engine.store.reading() as tx:
        depth = depth_within(await tx.entries.count(entry.queue_id), context.policy)
    if waits_for_room(entry.position, context.policy):
        return context.reply(request, ReplyKind.HELD, ahead=held_behind(entry.position, context.policy))
    return context.reply(request, code, position=entry.position, depth=max(depth, entry.position + 1))


def not_ready_reply(context: CommandContext, request: CommandRequest, entry: Entry, **facts: Any) -> Reply:
    """Reply what the pull request lacks, so that it waits outside the queue."""
    first = entry.unmet[0]
    if first.failing:
        facts["failing"] = as_data(first.failing)
    return context.reply(request, ReplyKind.NOT_READY, reason=first.reason.value, detail=first.detail or "", **facts)
