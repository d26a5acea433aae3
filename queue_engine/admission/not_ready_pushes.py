"""P4: bind the new head of a pull request that waits outside its queue, if everybody who pushed may queue.

The webhook of a push names the pusher. Where it was lost, GitHub's activity of the branch names all since the known
head. A push by any other person ends the wait, and the comment names that person.
"""

from datetime import timedelta

from queue_engine.admission.case import Case
from queue_engine.domain.facts import HeadPush, PullRequest
from queue_engine.domain.model import Entry
from queue_engine.domain.policy import NotReadyPushPolicy, Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Engine
from queue_engine.rules.eligibility import Reject, may_queue
from queue_engine.rules.own_pushes import may_push, with_pushed_head
from queue_engine.rules.readiness import wait_ended

_SETTLED = timedelta(minutes=1)
"""How long GitHub may show a push without naming the pusher."""


async def bind_waiting_push(
    engine: Engine, case: Case, entry: Entry, pull: PullRequest, pushed: tuple[str, str] | None
) -> Entry | Reject | None:
    """Return the entry with the new head that `pull` shows, or why its wait ends; None: another event decides that.

    `pushed` is the pusher and the head of a webhook. `case` has its policy. Raises GitHubError and StaleRecord.
    """
    policy, now = case.policy, engine.clock.now()
    if policy.on_waiting_push is not NotReadyPushPolicy.BIND:
        return Reject(Reason.HEAD_CHANGED)
    bound = with_pushed_head(entry, pull.head_sha)
    if (ended := wait_ended(bound, pull, policy, now)) is not None:
        return ended
    if pushed is None:
        pushes = await engine.github.head_pushes(case.repository, pull)
        pushers = pushers_since(entry, pull.head_sha, pushes)
        if pushers is None:
            is_new = not pushes or pushes[0].after != pull.head_sha
            return None if is_new and _changed_lately(engine, pull) else Reject(Reason.HEAD_CHANGED)
    else:
        pushers = (pushed[0],)
    for pusher in pushers:
        if not await _may_bind(engine, case, entry, pusher, policy):
            return Reject(Reason.HEAD_CHANGED, f"pushed by {pusher}, who may not queue")
    if pushed is not None and pushed[1] != pull.head_sha:
        return None
    async with engine.change() as change:
        saved = await change.tx.entries.save(bound)
        data = {"by": pushers[0], "before": entry.head, "head": pull.head_sha}
        await change.record("new_head", saved, delivery=case.delivery, data=data)
    return saved


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
