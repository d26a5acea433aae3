"""P4: bind the new head of a pull request that waits outside its queue, if everybody who pushed may queue.

The webhook of a push names the pusher, and the head that the push replaced. Where that is not the known head, the
webhook of an earlier push is lost or late. Then, and without any webhook, GitHub's activity of the branch names all
pushers since the known head. A push by any other person ends the wait, and the comment names that person.
"""

from dataclasses import dataclass
from datetime import timedelta

from queue_engine.admission.case import Case
from queue_engine.admission.shared_heads import follow_shared_update
from queue_engine.config.model import Policy
from queue_engine.domain.facts import HeadPush, PullRequest
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import NotReadyPushPolicy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import Reject, may_queue
from queue_engine.rules.own_pushes import may_push, with_pushed_head
from queue_engine.rules.readiness import wait_ended

_SETTLED = timedelta(minutes=1)
"""How long GitHub may show a push without naming the pusher."""


@dataclass(frozen=True, slots=True)
class Push:
    """A push: the pusher and the new head."""

    by: str
    head_sha: str
    before: str | None = None
    """The head that it replaced, by its webhook."""
    reported: bool = True
    """Whether a webhook reported it."""


async def bind_waiting_push(
    engine: Engine, case: Case, entry: Entry, pull: PullRequest, push: Push | None
) -> Entry | Reject | Case | None:
    """Return the entry with the new head that `pull` shows, or why its wait ends; None: another event decides that.

    The case, if IMQ alone pushed: its update for another pull request of the branch was bound, or has ended the wait.

    `push` is that of a webhook. `case` has its policy. Raises GitHubError and StaleRecord.
    """
    policy, now = case.policy, engine.clock.now()
    if policy.on_push.waiting is not NotReadyPushPolicy.BIND:
        return Reject(Reason.HEAD_CHANGED)
    if (ended := wait_ended(with_pushed_head(entry, pull.head_sha), pull, policy, now)) is not None:
        return ended
    if push is not None and push.before == entry.head:
        pushers, head = [push.by], push.head_sha
    else:
        head = pull.head_sha
        pushes = await engine.github.head_pushes(case.repository, pull)
        pushers = list(pushers_since(entry, head, pushes) or ())
        if not pushers:
            is_new = not pushes or pushes[0].after != head
            return None if is_new and _changed_lately(engine, pull) else Reject(Reason.HEAD_CHANGED)
    if list(pushers) == [await engine.github.own_login()]:
        return await follow_shared_update(engine, case, pull.head_sha, pushed_by_imq=True)
    for pusher in pushers:
        if not await _may_bind(engine, case, entry, pusher, policy):
            return Reject(Reason.HEAD_CHANGED, f"pushed by {pusher}, who may not queue")
    async with engine.change() as change:
        saved = await change.tx.entries.save(with_pushed_head(entry, head))
        data = {"by": pushers[0], "before": entry.head, "head": head}
        await change.record("new_head", saved, delivery=case.delivery, data=data)
    return saved if head == pull.head_sha else None


def pushers_since(entry: Entry, head: str, pushes: tuple[HeadPush, ...]) -> tuple[str, ...] | None:
    """Return who pushed between the known head and this one, newest first; None where that is not known.

    `pushes` are the moves of the branch, newest first.
    """
    found, at = dict[str, None](), head
    for push in pushes:
        if push.after != at or push.by is None:
            return None
        found[push.by] = None
        at = push.before
        if at == entry.head:
            return tuple(found)
    return None


async def _may_bind(engine: Engine, case: Case, entry: Entry, pusher: str, policy: Policy) -> bool:
    if may_push(entry, pusher, policy):
        return True
    return may_queue(policy, pusher, await engine.github.permission(case.repository, pusher)) is None


def _changed_lately(engine: Engine, pull: PullRequest) -> bool:
    return pull.updated_at is not None and engine.clock.now() < pull.updated_at + _SETTLED
