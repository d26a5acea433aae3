"""Refuse pull requests: store and announce why they are not eligible."""

from queue_engine.config.model import Policy
from queue_engine.domain.errors import EngineError
from queue_engine.domain.facts import Permission, PullRequest
from queue_engine.domain.model import Queue
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor
from queue_engine.effects import notices
from queue_engine.effects.context import Change
from queue_engine.rules.eligibility import may_queue, unread_teams


class RejectionError(EngineError):
    """The pull request is not eligible, for this reason; `label` is the trigger label, if known.

    `detail` may name a label, a method or a person, and may hold text from GitHub or users.
    """

    def __init__(self, reason: Reason, label: str = "", detail: str | None = None) -> None:
        super().__init__(reason.value)
        self.reason = reason
        self.label = label
        self.detail = detail


def assert_may_queue(policy: Policy, by: str, permission: Permission) -> None:
    """Raise RejectionError if this person may not queue."""
    if (reason := may_queue(policy, by, permission)) is not None:
        raise RejectionError(reason, policy.trigger_label, unread_teams(policy))


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
    """Reject a pull request: store and announce the rejection, and remove the label."""
    tx, now, repository = change.tx, change.now, queue.repository
    people = (pull.author, *pull.assignees) if REASONS[reason].next_actor is ReasonActor.AUTHOR else ()
    notice = Notice(
        kind=NoticeKind.REFUSED,
        number=pull.number,
        base_branch=pull.base_branch,
        head_sha=pull.head_sha,
        at=now,
        people=tuple(dict.fromkeys(people)),
        reason=reason,
        detail=detail,
        queued_by=by,
        trigger_label=policy.trigger_label,
    )
    await notices.announce(tx, repository, notice, policy, due=now)
    if REASONS[reason].label_off:
        await tx.rejections.put(repository.id, pull.number, pull.head_sha, reason, now)
        await notices.remove_label(tx, repository, pull.number, policy, now)
    data = {"head": pull.head_sha, "by": by, "detail": detail}
    await change.record("refused", queue, number=pull.number, reason=reason, delivery=delivery, data=data)
