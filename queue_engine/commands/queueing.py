"""Queueing and leaving by command. The door judges as always: no command gets past it."""

from dataclasses import replace

from queue_engine import desk
from queue_engine.admission import Knock, let_in
from queue_engine.command_consent import consents
from queue_engine.commands.asked import Asked
from queue_engine.commands.codes import ReplyCode
from queue_engine.commands.reading import Typed
from queue_engine.core.slots import QueueFull
from queue_engine.door import Hold, Refuse
from queue_engine.engine import Change
from queue_engine.model import Entry
from queue_engine.notice import Reply
from queue_engine.reasons import Reason


async def queue(asked: Asked, typed: Typed) -> Reply:
    """Queue the head that stood there when the command was typed, as its label does. Raises GitHubError."""
    engine, repository, number = asked.engine, asked.repository, asked.pull.number
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, number)
    if entry is not None:
        return await _placed(asked, typed, entry, _joined(asked, entry))
    head = await _consented(asked)
    if head is None:
        return asked.reply(typed, ReplyCode.CHANGED_SINCE, accepted=False)
    try:
        await asked.permission()
        queued = await desk.enqueue(
            engine, repository, number, by=asked.by, head_sha=head, delivery=asked.delivery, taken=asked.taken
        )
    except desk.Refused as refused:
        return _refused(asked, typed, refused.reason, refused.detail)
    except QueueFull:
        return await _knock(asked, typed, head, leaving=None)
    return await _placed(asked, typed, queued.entry, _joined(asked, queued.entry))


async def requeue(asked: Asked, typed: Typed) -> Reply:
    """Leave and join again at the end, with the present head: consent given anew. Raises GitHubError, StaleVersion."""
    async with asked.engine.store.reading() as tx:
        entry = await tx.entries.find(asked.repository.id, asked.pull.number)
    if entry is None:
        return await queue(asked, typed)
    if entry.delivery == asked.delivery:
        await desk.put_label_on(asked.engine, asked.repository, asked.pull, asked.policy)
        return await _placed(asked, typed, entry, ReplyCode.REQUEUED)
    if entry.merge_requested_at is not None:
        return asked.reply(typed, ReplyCode.LANDING, accepted=False)
    # The head that it was queued with, or IMQ's own update of it: nobody has pushed since.
    bound = entry.head_proved and asked.pull.head_sha == entry.head
    head = entry.head if bound else await _consented(asked)
    if head is None:
        return asked.reply(typed, ReplyCode.CHANGED_SINCE, accepted=False)
    return await _knock(asked, typed, head, leaving=entry)


async def unqueue(change: Change, asked: Asked, typed: Typed) -> Reply:
    """Take it out of its queue, or the line for a place. Raises StaleVersion when that changes in this moment."""
    leave = desk.Leave(asked.policy, unlabelled=not asked.policy.triggered(asked.pull.labels), by=asked.by)
    try:
        left = await desk.take_out(change, asked.repository, asked.pull.number, leave, delivery=asked.delivery)
    except desk.NotQueued:
        return asked.reply(typed, ReplyCode.NOT_QUEUED, accepted=False)
    return asked.reply(typed, ReplyCode.LEFT) if left else asked.reply(typed, ReplyCode.LANDING, accepted=False)


async def call_off(asked: Asked) -> None:
    """Where its merge is under way the label goes first: a merge that fails is not tried again. Raises GitHubError."""
    async with asked.engine.store.reading() as tx:
        entry = await tx.entries.find(asked.repository.id, asked.pull.number)
    if entry is not None and entry.merge_requested_at is not None:
        pull = await desk.take_label_off(asked.engine, asked.repository, asked.pull, asked.policy)
        asked.taken = replace(asked.taken, pull=pull)


async def _consented(asked: Asked) -> str | None:
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


async def _knock(asked: Asked, typed: Typed, head: str, *, leaving: Entry | None) -> Reply:
    """Knock as the label would, which is set as soon as that is stored: whoever dies in between is held, or queued."""
    engine, repository, pull = asked.engine, asked.repository, asked.pull
    await asked.permission()
    labelled = replace(asked.taken, pull=desk.with_label(pull, asked.policy))
    request = Knock(repository, pull.number, asked.by, head, delivery=asked.delivery)
    answer = await let_in(engine, request, labelled, by=asked.by, leaving=leaving, why=Reason.UNQUEUED)
    if isinstance(answer, Refuse):
        return _refused(asked, typed, answer.reason, answer.detail)
    await desk.put_label_on(engine, repository, pull, asked.policy)
    if isinstance(answer, Entry):
        return await _placed(asked, typed, answer, ReplyCode.QUEUED if leaving is None else ReplyCode.REQUEUED)
    assert isinstance(answer, Hold)
    async with engine.store.reading() as tx:
        line = await tx.queues.find(repository.id, pull.base_branch)
        ahead = 0 if line is None else await tx.held.ahead(line.id, repository.id, pull.number)
    return asked.reply(typed, ReplyCode.HELD, ahead=ahead)


def _refused(asked: Asked, typed: Typed, reason: Reason, detail: str | None) -> Reply:
    label = asked.policy.trigger_label
    return asked.reply(typed, ReplyCode.REFUSED, accepted=False, reason=reason.value, label=label, detail=detail or "")


def _joined(asked: Asked, entry: Entry) -> ReplyCode:
    """What to say of one that stands there: whether it was this very comment that queued it."""
    return ReplyCode.QUEUED if entry.delivery == asked.delivery else ReplyCode.ALREADY_QUEUED


async def _placed(asked: Asked, typed: Typed, entry: Entry, code: ReplyCode) -> Reply:
    async with asked.engine.store.reading() as tx:
        now_so = await tx.entries.get(entry.id) or entry
        depth = await tx.entries.count(entry.queue_id)
    return asked.reply(typed, code, position=now_so.position, depth=max(depth, now_so.position + 1))
