"""Follow a named bot that pushes to its own queued pull request (`on_push.requeue_for`).

While the entry waits, the webhook alone binds the new head: GitHub signed it, and nothing lands before a pass reads the
pull request and its checks. So a bot that rebases fifty pull requests after each landing costs no request, and the
entries keep their positions. A push to an entry whose run has begun costs that run: it is queued again at the end.
"""

import structlog

from queue_engine.admission.case import Case
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry
from queue_engine.domain.webhooks import HeadPushed
from queue_engine.effects.context import Engine
from queue_engine.rules.own_pushes import keeps_position, known_heads, may_push, pushed_by, with_pushed_head

_log = structlog.get_logger("imq.own_pushes")


async def bind_own_push(engine: Engine, case: Case, webhook: HeadPushed) -> bool:
    """Bind the head that a named bot pushed to a waiting entry of its own; False for any other push.

    `case` has its policy.
    """
    policy = case.policy
    if case.entry is None or not policy.on_push.requeue_for:
        return False
    async with engine.change() as change:
        entry = await change.tx.entries.get(case.entry.id)
        if entry is None or not may_push(entry, webhook.sender, policy) or not keeps_position(entry, webhook.before):
            return False
        saved = await change.tx.entries.save(with_pushed_head(entry, webhook.head_sha))
        data = {"by": webhook.sender, "before": webhook.before, "head": webhook.head_sha}
        await change.record("rebased", saved, delivery=webhook.delivery, data=data)
        await change.tx.queues.wake(entry.queue_id, change.now)
    _log.info("rebased", repository=case.repository.full_name, number=case.number, head=webhook.head_sha)
    return True


async def is_proved(engine: Engine, entry: Entry, pull: PullRequest, before: str | None) -> bool:
    """Return whether a named bot alone pushed what replaced the known head: by the webhook, or by GitHub's activity.

    `before` is the head that the push replaced, by its webhook; None if no webhook came.
    """
    if before is not None and before in known_heads(entry):
        return True
    return pushed_by(pull.author, await engine.github.head_pushes(entry.repository, pull), entry, pull.head_sha)
