"""Refuse pull requests: store and announce why they are not eligible."""

from datetime import datetime

from queue_engine.domain.errors import EngineError
from queue_engine.domain.facts import Permission, PullRequest
from queue_engine.domain.model import Queue
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change
from queue_engine.rules.eligibility import may_queue
from queue_engine.store.held import HeldPullRequest


class RejectionError(EngineError):
    """The pull request is not eligible, for this reason; `label` is the trigger label, if that was looked up.

    `detail` names what it is about, and may hold foreign words.
    """

    def __init__(self, reason: Reason, label: str = "", detail: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.label = label
        self.detail = detail


def assert_may_queue(policy: Policy, by: str, permission: Permission) -> None:
    """Raise RejectionError if this person may not queue."""
    if (reason := may_queue(policy, by, permission)) is not None:
        raise RejectionError(reason, policy.trigger_label)


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
    notice = rejection_notice(policy, pull, NoticeKind.REFUSED, reason, change.now, by, detail=detail)
    await reject(change, queue, notice, reason, policy, delivery=delivery)


async def drop_held(
    change: Change,
    waiting: HeldPullRequest,
    reason: Reason,
    policy: Policy,
    *,
    delivery: str | None,
    by: str | None = None,
) -> None:
    """Let one go that waits for a place, and its label: what is still there of it is no new wish.

    `by` is who dequeued it, if a person or a program did.
    """
    queue = await change.tx.queues.get(waiting.queue_id)
    assert queue is not None
    notice = Notice(
        kind=NoticeKind.REFUSED,
        number=waiting.number,
        base_branch=queue.base_branch,
        head_sha=waiting.head_sha,
        at=change.now,
        reason=reason,
        queued_by=waiting.queued_by,
        trigger_label=policy.trigger_label,
    )
    await reject(change, queue, notice, reason, policy, delivery=delivery, by=by)


async def reject(
    change: Change,
    queue: Queue,
    notice: Notice,
    reason: Reason,
    policy: Policy,
    *,
    delivery: str | None,
    by: str | None = None,
) -> None:
    """Store all that follows from the answer no, and tell `notice`."""
    tx, now, repository, number = change.tx, change.now, queue.repository, notice.number
    if (waiting := await tx.held.find(repository.id, number)) is not None:
        await tx.held.remove(repository.id, number)
        await record.wake_waiting(tx, waiting.queue_id, now)
    await notices.announce(tx, repository, notice, policy, due=now)
    if REASONS[reason].label_off:
        await tx.refusals.put(repository.id, number, notice.head_sha, reason, now)
        await notices.remove_label(tx, repository, number, policy, now)
    data = {"head": notice.head_sha, "by": notice.queued_by, "detail": notice.detail}
    if by is not None:
        data["dequeued_by"] = by
    await change.record("refused", queue, number=number, reason=reason, delivery=delivery, data=data)


def rejection_notice(
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
    """Build the notice of an eligibility answer; `position` is that among the held pull requests."""
    people = (pull.author, *pull.assignees) if REASONS[reason].move is ReasonActor.AUTHOR else ()
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
