"""Turning pull requests away: what is stored and told when the door says no."""

from datetime import datetime

from queue_engine import journal, telling
from queue_engine.engine import Change
from queue_engine.facts import PullRequest
from queue_engine.model import Queue
from queue_engine.notice import Notice, NoticeKind
from queue_engine.policy import Policy
from queue_engine.reasons import REASONS, Move, Reason


async def refuse(
    change: Change,
    queue: Queue,
    pull: PullRequest,
    reason: Reason,
    policy: Policy,
    *,
    by: str | None,
    delivery: str | None,
    detail: str | None = None,
) -> None:
    """Turn a pull request away, and tell so; one that waited for a place waits no more."""
    tx, now, repository = change.tx, change.now, queue.repository
    if await tx.held.find(repository.id, pull.number) is not None:
        await tx.held.remove(repository.id, pull.number)
        await journal.call_waiting(tx, queue.id, now)
    notice = door_notice(policy, pull, NoticeKind.REFUSED, reason, now, by, detail=detail)
    await telling.tell(tx, repository, notice, policy, due=now)
    if REASONS[reason].label_off:
        await tx.refusals.put(repository.id, pull.number, pull.head_sha, reason, now)
        await journal.take_label_off(tx, repository, pull.number, policy, now)
    change.happenings.append(
        await journal.note(
            tx,
            now,
            "refused",
            repository,
            queue.base_branch,
            pull.number,
            reason=reason,
            delivery=delivery,
            data={"head": pull.head_sha, "by": by, "detail": detail},
        )
    )


def door_notice(
    policy: Policy,
    pull: PullRequest,
    kind: NoticeKind,
    reason: Reason,
    now: datetime,
    by: str | None,
    *,
    position: int | None = None,
    detail: str | None = None,
) -> Notice:
    """What is to be read of an answer of the door; `position` is that in the line for a place."""
    people = (pull.author, *pull.assignees) if REASONS[reason].move is Move.AUTHOR else ()
    return Notice(
        kind=kind,
        number=pull.number,
        base_branch=pull.base_branch,
        head_sha=pull.head_sha,
        at=now,
        people=tuple(dict.fromkeys(people)),
        position=position,
        reason=reason,
        detail=detail,
        queued_by=by,
        trigger_label=policy.trigger_label,
    )
