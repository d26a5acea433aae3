"""Letting pull requests in: the facts for the door are read, its answer is stored with all that follows from it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import datetime

import structlog

from queue_engine import journal
from queue_engine.core import trace
from queue_engine.door import Admit, Hold, Ignore, Refuse, knock
from queue_engine.engine import Change, Engine
from queue_engine.facts import PullRequest
from queue_engine.model import Queue, Repository
from queue_engine.notice import Notice, NoticeKind
from queue_engine.reasons import REASONS, Move, Reason
from queue_engine.store import DuplicateEntry
from queue_engine.store.outbox import LetterKind

_log = structlog.get_logger("imq.admission")


@dataclass(frozen=True, slots=True)
class Knock:
    """Somebody asks for a pull request to be queued.

    `head_sha` is the head that the label was set on; None when only the sweep found the label, which then stands
    for the present head. `labelled_at` is when it was set. `by_machine` tells automation from a person who tries again.
    """

    repository: Repository
    number: int
    by: str | None
    head_sha: str | None
    labelled_at: datetime | None = None
    by_machine: bool = False
    delivery: str | None = None


async def _at_once() -> None:
    """Nobody is ahead."""


async def admit(engine: Engine, request: Knock, *, turn: Callable[[], Awaitable[None]] = _at_once) -> None:
    """Judge a pull request at the door and store the answer. Raises GitHubError when the facts cannot be read.

    `turn` waits for those who knocked before: facts are read side by side, places are given in order (P3).
    """
    async with engine.store.reading() as tx:
        if await tx.entries.find(request.repository.id, request.number) is not None:
            return
        refusal = await tx.refusals.find(request.repository.id, request.number)
    insistent = request.by_machine or request.head_sha is None
    if insistent and refusal is not None and refusal.head_sha == request.head_sha:
        return
    pull = await engine.github.pull_request(request.repository, request.number)
    if insistent and refusal is not None and refusal.head_sha == pull.head_sha:
        return
    if not pull.open or not engine.policy.triggered(pull.labels):
        return
    by = request.by
    if request.head_sha not in {pull.head_sha, None} or by is None:
        last = await engine.github.last_labelling(request.repository, request.number, engine.policy.trigger_label)
        if last is not None and request.labelled_at is not None and last.at > request.labelled_at:
            # Deliveries come in any order: the label was set anew since, and that consent is not this one's to refuse.
            return
        by = by or (last.by if last else None)
    permission = await engine.github.permission(request.repository, by or "")
    rules = await engine.github.branch_rules(request.repository, pull.base_branch)
    await turn()
    async with engine.change() as change:
        queue = await change.tx.queues.find_or_create(request.repository, pull.base_branch, change.now)
        answer = knock(
            pull,
            labelled_head=request.head_sha or pull.head_sha,
            permission=permission,
            rules=rules,
            depth=await change.tx.entries.count(queue.id),
            policy=engine.policy,
        )
        match answer:
            case Admit():
                await _admit(engine, change, queue, pull, by or "", request.delivery)
            case Hold():
                await _hold(engine, change, queue, pull, by or "", request.delivery)
            case Refuse(reason):
                await _refuse(engine, change, request, pull, reason)
            case Ignore():
                pass
    _log.info("knock", repository=request.repository.full_name, number=request.number, answer=type(answer).__name__)


async def _admit(
    engine: Engine, change: Change, queue: Queue, pull: PullRequest, by: str, delivery: str | None
) -> None:
    tx, now = change.tx, change.now
    try:
        entry = await tx.entries.add(
            queue_id=queue.id,
            number=pull.number,
            title=pull.title,
            author=pull.author,
            queued_by=by,
            queued_head=pull.head_sha,
            enqueued_at=now,
            trace=trace.current(),
            delivery=delivery,
        )
    except DuplicateEntry:
        return
    await tx.held.remove(queue.repository.id, pull.number)
    # A removal still on its way belongs to an earlier stay; the label on the pull request now is new consent.
    await tx.outbox.withdraw(LetterKind.LABEL_OFF, queue.repository.id, pull.number)
    depth = entry.position + 1
    await journal.tell_progress(tx, entry, NoticeKind.QUEUED, engine.policy, now, depth=depth)
    change.happenings.append(
        await journal.note(
            tx,
            now,
            "queued",
            queue.repository,
            queue.base_branch,
            pull.number,
            entry_id=entry.id,
            delivery=delivery,
            data={"by": by, "head": pull.head_sha, "position": entry.position},
        )
    )
    await tx.queues.wake(queue.id, now)


async def _hold(engine: Engine, change: Change, queue: Queue, pull: PullRequest, by: str, delivery: str | None) -> None:
    tx, now = change.tx, change.now
    await tx.held.add(
        queue.id,
        queue.repository.id,
        pull.number,
        pull.head_sha,
        by,
        now,
        trace=trace.current(),
        delivery=delivery,
    )
    notice = _notice(engine, pull, NoticeKind.HELD, Reason.QUEUE_FULL, now, by)
    await tx.outbox.want(LetterKind.COMMENT, queue.repository, pull.number, due=now, notice=notice)
    change.happenings.append(
        await journal.note(
            tx,
            now,
            "held",
            queue.repository,
            queue.base_branch,
            pull.number,
            reason=Reason.QUEUE_FULL,
            delivery=delivery,
        )
    )


async def _refuse(engine: Engine, change: Change, request: Knock, pull: PullRequest, reason: Reason) -> None:
    tx, now, repository = change.tx, change.now, request.repository
    await tx.held.remove(repository.id, pull.number)
    await tx.refusals.put(repository.id, pull.number, pull.head_sha, reason, now)
    notice = _notice(engine, pull, NoticeKind.REFUSED, reason, now, request.by)
    await tx.outbox.want(LetterKind.COMMENT, repository, pull.number, due=now, notice=notice)
    await journal.take_label_off(tx, repository, pull.number, engine.policy, now)
    change.happenings.append(
        await journal.note(
            tx,
            now,
            "refused",
            repository,
            pull.base_branch,
            pull.number,
            reason=reason,
            delivery=request.delivery,
            data={"head": pull.head_sha, "by": request.by},
        )
    )


def _notice(
    engine: Engine, pull: PullRequest, kind: NoticeKind, reason: Reason, now: datetime, by: str | None
) -> Notice:
    people = (pull.author, *pull.assignees) if REASONS[reason].move is Move.AUTHOR else ()
    return Notice(
        kind=kind,
        number=pull.number,
        base_branch=pull.base_branch,
        head_sha=pull.head_sha,
        at=now,
        people=tuple(dict.fromkeys(people)),
        reason=reason,
        queued_by=by,
        trigger_label=engine.policy.trigger_label,
    )
