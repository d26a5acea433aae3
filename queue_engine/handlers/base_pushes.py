"""Record pushes to a base branch that IMQ did not make: somebody merged or pushed outside the queue.

The webhook of the push says so, and IMQ sends no request for it. Its sender is the account that caused the event
(docs, "Webhook events and payloads: push"); the integration for Slack shows this account, too (integrations/slack
#1181). For some merges GitHub leaves the sender out (libraries.io #3089). Then the commit decides: IMQ stores the
commits that its merges landed as.
"""

import structlog

from queue_engine.domain.known_facts import KEPT, Push, of_branch
from queue_engine.domain.model import Queue
from queue_engine.domain.policy import Mode
from queue_engine.domain.webhooks import BranchPushed
from queue_engine.effects.context import Change, Engine

_SCOPE = "base_push"
"""Of the keys that remember which pushes were recorded: a webhook's job may run again."""

_log = structlog.get_logger("imq.branches")


async def record_push(engine: Engine, queue: Queue, webhook: BranchPushed) -> None:
    """Record a push to the base branch of this queue, unless IMQ made it. Raises GitHubError.

    A repository in shadow mode is left out: there people merge everything.
    """
    if webhook.head_sha is None or webhook.sender == await engine.github.own_login():
        return
    async with engine.change() as change:
        if await change.tx.shadow.mode(queue.repository.id) is Mode.SHADOW:
            return
        if webhook.sender is None and await _is_own_landing(change, queue, webhook.head_sha):
            return
        if not await _is_new(change, webhook):
            return
        data = {"by": webhook.sender, "before": webhook.before, "sha": webhook.head_sha}
        await change.record("landed_outside", queue, delivery=webhook.delivery, data=data)
    _log.info("landed_outside", repository=queue.repository.full_name, base_branch=queue.base_branch)


async def _is_new(change: Change, webhook: BranchPushed) -> bool:
    """Remember the delivery; False if its push was recorded before."""
    return bool(await change.tx.keys.record(_SCOPE, [(webhook.delivery, webhook.kind)], change.now))


async def _is_own_landing(change: Change, queue: Queue, head_sha: str) -> bool:
    """Return whether IMQ's merge made the pushed commit.

    A push that arrives during a merge of IMQ counts as that merge, whose answer is not stored yet.
    """
    if any(entry.run.merge_requested_at is not None for entry in await change.tx.entries.of_queue(queue.id)):
        return True
    subject = of_branch(queue.base_branch)
    known = await change.tx.known.about(queue.repository.id, [subject], since=change.now - KEPT)
    stated = [each.statement for each in known.get(subject, ())]
    return any(isinstance(each, Push) and each.at is None and each.after == head_sha for each in stated)
