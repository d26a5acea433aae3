"""Queue and dequeue by command. The rules are those of labels."""

from dataclasses import replace

from queue_engine.admission import enqueue
from queue_engine.admission.admit import admit
from queue_engine.admission.case import Case
from queue_engine.admission.command_consent import consents
from queue_engine.admission.dequeue import NotQueued, authorize_dequeue, dequeue_by_user, without_label
from queue_engine.admission.enqueue_request import EnqueueRequest
from queue_engine.admission.rejection import RejectionError
from queue_engine.commands.context import CommandContext
from queue_engine.commands.parse import CommandRequest
from queue_engine.core.concurrency.slots import SlotsBusy
from queue_engine.domain.model import Entry
from queue_engine.domain.notice import Reply
from queue_engine.domain.reasons import Reason
from queue_engine.domain.replies import ReplyKind
from queue_engine.effects.context import Change
from queue_engine.rules.eligibility import Hold, Reject


async def queue(asked: CommandContext, typed: CommandRequest) -> Reply:
    """Queue the head that stood there when the command was typed, as its label does. Raises GitHubError."""
    entry = await asked.load_entry()
    if entry is not None:
        return await _placed(asked, typed, entry, _joined(asked, entry))
    return await _enqueue(asked, typed)


async def _enqueue(asked: CommandContext, typed: CommandRequest) -> Reply:
    engine, repository, number = asked.engine, asked.repository, asked.pull.number
    head = await _consented(asked)
    if head is None:
        return asked.reply(typed, ReplyKind.CHANGED_SINCE, accepted=False)
    try:
        await asked.permission()
        queued = await enqueue.enqueue(
            engine, repository, number, by=asked.by, head_sha=head, delivery=asked.delivery, taken=asked.taken
        )
    except RejectionError as refused:
        return _refused(asked, typed, refused.reason, refused.detail)
    except SlotsBusy:
        return await _request_enqueue(asked, typed, head, leaving=None)
    return await _placed(asked, typed, queued.entry, _joined(asked, queued.entry))


async def requeue(asked: CommandContext, typed: CommandRequest) -> Reply:
    """Leave and join again at the end, with the present head: consent is renewed. Raises GitHubError, StaleRecord."""
    entry = await asked.load_entry()
    if entry is None:
        return await _enqueue(asked, typed)
    if entry.delivery == asked.delivery:
        await enqueue.add_label(asked.engine, asked.repository, asked.pull, asked.policy)
        return await _placed(asked, typed, entry, ReplyKind.REQUEUED)
    if entry.merge_requested_at is not None:
        return asked.reply(typed, ReplyKind.LANDING, accepted=False)
    # The head that it was queued with, or IMQ's own update of it: nobody has pushed since.
    bound = entry.head_proved and asked.pull.head_sha == entry.head
    head = entry.head if bound else await _consented(asked)
    if head is None:
        return asked.reply(typed, ReplyKind.CHANGED_SINCE, accepted=False)
    return await _request_enqueue(asked, typed, head, leaving=entry)


async def prepare_dequeue(asked: CommandContext, typed: CommandRequest) -> Reply | None:
    """Remove the label first while GitHub merges; the reply, if there is nothing to dequeue. Raises GitHubError."""
    try:
        permitted = await authorize_dequeue(
            asked.engine, asked.repository, asked.pull.number, by=asked.by, taken=asked.taken
        )
    except NotQueued:
        return asked.reply(typed, ReplyKind.NOT_QUEUED, accepted=False)
    if permitted.unlabelled:
        asked.taken = replace(asked.taken, pull=without_label(asked.pull, permitted.policy))
    asked.dequeue = permitted
    return None


async def unqueue(change: Change, asked: CommandContext, typed: CommandRequest) -> Reply:
    """Take it out of its queue, or the line for a place. Raises StaleRecord when that changes in this moment."""
    assert asked.dequeue is not None
    try:
        left = await dequeue_by_user(
            change, asked.repository, asked.pull.number, asked.dequeue, delivery=asked.delivery
        )
    except NotQueued:
        return asked.reply(typed, ReplyKind.NOT_QUEUED, accepted=False)
    return asked.reply(typed, ReplyKind.LEFT) if left else asked.reply(typed, ReplyKind.LANDING, accepted=False)


async def _consented(asked: CommandContext) -> str | None:
    """The head that the person saw who typed; None if it may be another by now (P4).

    GitHub does not tell which head a comment was made on. It does tell when a pull request changed last, and a push
    changes it: what has not changed since the comment has the head that stood there then. Once the command has been
    begun its head is known, whatever changes afterwards.
    """
    async with asked.engine.store.reading() as tx:
        waiting = await tx.held.find(asked.repository.id, asked.pull.number)
    if waiting is not None and waiting.queued_by == asked.by:
        return waiting.head_sha
    changed, head = asked.pull.updated_at, asked.pull.head_sha
    if asked.at is None:
        return head if changed is None else None
    if changed is not None and changed > asked.at:
        return None
    known = await consents(asked.engine, asked.repository, asked.pull.number, head, asked.at)
    return head if known else None


async def _request_enqueue(asked: CommandContext, typed: CommandRequest, head: str, *, leaving: Entry | None) -> Reply:
    """Store the enqueue request, then set the label: if the process dies in between, it is held or queued."""
    engine, repository, pull = asked.engine, asked.repository, asked.pull
    await asked.permission()
    labelled = replace(asked.taken, pull=enqueue.with_label(pull, asked.policy))
    case = Case(repository, pull.number, leaving, asked.delivery)
    leaves_for = None if leaving is None else Reason.UNQUEUED
    request = EnqueueRequest(case, asked.by, head, leaves_for=leaves_for)
    answer = await admit(engine, request, labelled)
    if isinstance(answer, Reject):
        return _refused(asked, typed, answer.reason, answer.detail)
    await enqueue.add_label(engine, repository, pull, asked.policy)
    if isinstance(answer, Entry):
        return await _placed(asked, typed, answer, ReplyKind.QUEUED if leaving is None else ReplyKind.REQUEUED)
    assert isinstance(answer, Hold)
    async with engine.store.reading() as tx:
        line = await tx.queues.find(repository.id, pull.base_branch)
        ahead = 0 if line is None else await tx.held.ahead(line.id, repository.id, pull.number)
    return asked.reply(typed, ReplyKind.HELD, ahead=ahead)


def _refused(asked: CommandContext, typed: CommandRequest, reason: Reason, detail: str | None) -> Reply:
    label = asked.policy.trigger_label
    return asked.reply(typed, ReplyKind.REFUSED, accepted=False, reason=reason.value, label=label, detail=detail or "")


def _joined(asked: CommandContext, entry: Entry) -> ReplyKind:
    """What to say of one that stands there: whether it was this very comment that queued it."""
    return ReplyKind.QUEUED if entry.delivery == asked.delivery else ReplyKind.ALREADY_QUEUED


async def _placed(asked: CommandContext, typed: CommandRequest, entry: Entry, code: ReplyKind) -> Reply:
    async with asked.engine.store.reading() as tx:
        now_so = await tx.entries.get(entry.id) or entry
        depth = await tx.entries.count(entry.queue_id)
    return asked.reply(typed, code, position=now_so.position, depth=max(depth, now_so.position + 1))
