"""P4: which head a command consents to. GitHub does not tell which one its author saw, so nothing pushed since counts.

A command consents to the head that stood there when it was typed. GitHub's times have whole seconds, and deliveries
come in any order: a push of the same second, or one that IMQ was told of after the command, may be newer than it. Then
the command consents to nothing, and what it queued already is dequeued when the push is told.
"""

from collections.abc import Iterable
from datetime import datetime

import structlog

from queue_engine import journal
from queue_engine.engine import Engine
from queue_engine.hints import Hint
from queue_engine.known.facts import KEPT, Commanded, Fact, Known, PullState, of_pull
from queue_engine.model import Entry, Repository
from queue_engine.reasons import Reason
from queue_engine.refusing import step_out
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.command_consent")

DETAIL = "commits were pushed in the same second as the command, or after it"


def pushed_since(known: Iterable[Known], head_sha: str, commanded_at: datetime) -> bool:
    """Whether this head is known to come from a push that may be newer than the command."""
    pushes = (one for one in known if isinstance(one.told, PullState) and one.told.before is not None)
    return any(
        push.told.head == head_sha and max(push.told.updated_at, push.at) >= commanded_at
        for push in pushes
        if isinstance(push.told, PullState)
    )


async def consents(engine: Engine, repository: Repository, number: int, head_sha: str, commanded_at: datetime) -> bool:
    """Whether a command of that time consents to this head, by the pushes that are known; if so, that is kept."""
    async with engine.change() as change:
        if pushed_since(await _known(change.tx, repository, number, change.now), head_sha, commanded_at):
            return False
        consent = Fact(subject=of_pull(number), told=Commanded(head=head_sha, at=commanded_at))
        await change.tx.known.tell(repository.id, [consent], change.now)
    return True


async def overtaken(engine: Engine, repository: Repository, hint: Hint) -> bool:
    """Whether a command has queued, or holds, the head of this push although the push may be newer.

    Then the pull request is dequeued, and people read why.
    """
    number, head = hint.number or 0, hint.head_sha or ""
    async with engine.store.reading() as tx:
        known = await _known(tx, repository, number, engine.clock.now())
        entry = await tx.entries.find(repository.id, number)
    commands = [one.told for one in known if isinstance(one.told, Commanded) and one.told.head == head]
    if not any(pushed_since(known, head, command.at) for command in commands):
        return False
    if entry is not None and entry.queued_head == head and entry.merge_requested_at is None:
        await _dequeue(engine, entry, hint)
        return True
    return await _release(engine, repository, hint)


async def _dequeue(engine: Engine, entry: Entry, hint: Hint) -> None:
    policy = await engine.policies.of(entry.repository, entry.base_branch)
    async with engine.change() as change:
        left = await journal.dismiss(
            change.tx,
            entry,
            Reason.HEAD_CHANGED,
            policy,
            change.now,
            detail=DETAIL,
            people=(entry.author,),
            delivery=hint.delivery,
        )
        change.happenings.append(left)
    _log.info("left", repository=entry.repository.full_name, number=entry.number, reason=Reason.HEAD_CHANGED.value)


async def _release(engine: Engine, repository: Repository, hint: Hint) -> bool:
    """The same for a pull request that waits for a place."""
    async with engine.store.reading() as tx:
        waiting = await tx.held.find(repository.id, hint.number or 0)
        queue = None if waiting is None else await tx.queues.get(waiting.queue_id)
    if waiting is None or queue is None or waiting.head_sha != hint.head_sha:
        return False
    policy = await engine.policies.of(repository, queue.base_branch)
    async with engine.change() as change:
        if await change.tx.held.find(repository.id, waiting.number) != waiting:
            return False
        await step_out(change, waiting, Reason.HEAD_CHANGED, policy, delivery=hint.delivery)
    return True


async def _known(tx: Transaction, repository: Repository, number: int, now: datetime) -> list[Known]:
    subject = of_pull(number)
    return (await tx.known.about(repository.id, [subject], since=now - KEPT)).get(subject, [])
