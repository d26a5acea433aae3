"""Unblock entries and send refused writes again when IMQ's installation may do more than before.

An entry that changes workflows while IMQ lacks the permission is blocked: it is `pending`, and its queue proceeds
without it. IMQ learns from GitHub's webhook that a maintainer accepted the permission.

GitHub refuses comments, check runs and labels without a permission, and all requests to a suspended installation. Such
writes are held, or dead letters after days. IMQ sends them again by itself once GitHub may accept them.
"""

from dataclasses import replace

import structlog

from queue_engine.effects.context import Engine
from queue_engine.handlers.repository_labels import refused_labels
from queue_engine.store.outbox.items import OUTBOX_JOB
from queue_engine.store.reconciler_state import changed_teams

_log = structlog.get_logger("imq.permissions")

_MOST_RESENT = 1_000
"""Dead letters that IMQ considers; an operator may retry older ones."""


async def permissions_accepted(engine: Engine, installation_id: int) -> None:
    """Unblock the entries of this installation. Raises StaleRecord when one changed meanwhile.

    A token keeps the permissions that it was made with, so that this process fetches a new one.
    """
    engine.github.forget_token(installation_id)
    async with engine.change() as change:
        for queue in await change.tx.queues.all():
            if queue.repository.installation_id != installation_id:
                continue
            for entry in await change.tx.entries.of_queue(queue.id):
                if entry.blocked_until is not None:
                    await change.tx.entries.save(replace(entry, blocked_until=None))
                    await change.tx.queues.wake(queue.id, change.now)
                    _log.info("unblocked", repository=entry.repository.full_name, number=entry.number)
        await change.tx.sweeps.done(changed_teams(installation_id), change.now)


async def teams_changed(engine: Engine, installation_id: int) -> None:
    """Have the members of this installation's teams read again."""
    async with engine.change() as change:
        await change.tx.sweeps.done(changed_teams(installation_id), change.now)


async def resend_refused(engine: Engine, installation_id: int) -> None:
    """Send the refused comments, check runs and labels of this installation again.

    The next sweep creates the labels that GitHub refused to create.
    """
    engine.github.forget_token(installation_id)
    async with engine.change() as change:
        queues = await change.tx.queues.all()
        own = {each.repository.id for each in queues if each.repository.installation_id == installation_id}
        released = [await change.tx.outbox.release(repository, change.now) for repository in sorted(own)]
        letters = await change.tx.dead_letters.list(_MOST_RESENT, job_type=OUTBOX_JOB, retryable=True)
        refused = [each.payload for each in letters if each.payload.get("repository_id") in own]
        sent = [await change.tx.outbox.requeue(payload, change.now) for payload in refused]
        await change.tx.sweeps.forget(refused_labels(installation_id))
    if count := sum(sent) + sum(released):
        _log.info("refused_writes_sent_again", installation=installation_id, count=count)
