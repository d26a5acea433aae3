"""Unblock entries and send refused writes again when IMQ's installation may do more than before.

An entry that changes workflows while IMQ lacks the permission is blocked: it is `pending`, and its queue proceeds
without it. IMQ learns from GitHub's webhook that a maintainer accepted the permission.

GitHub refuses comments, check runs and labels without a permission, and all requests to a suspended installation. Such
writes are held, or dead letters after days. IMQ sends them again by itself once GitHub may accept them.
"""

from collections.abc import Sequence
from dataclasses import replace

import structlog

from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.reasons import Reason
from queue_engine.effects.context import Change, Engine
from queue_engine.handlers.repositories import enqueue_examination, resume_refused
from queue_engine.handlers.repository_labels import refused_labels
from queue_engine.store.known import changed_teams
from queue_engine.store.outbox.items import OUTBOX_JOB

_log = structlog.get_logger("imq.permissions")

_MOST_RESENT = 1_000
"""Dead letters that IMQ considers; an operator may retry older ones."""


async def accepted_again(engine: Engine, installation_id: int) -> None:
    """Resume what GitHub refused to this installation, unblock its entries, and send its refused writes again.

    A token keeps the permissions that it was made with, so that this process fetches a new one. The next sweep creates
    the labels that GitHub refused to create. Raises StaleRecord when an entry changed meanwhile.
    """
    engine.github.forget_token(installation_id)
    async with engine.change() as change:
        queues = [each for each in await change.tx.queues.all() if each.repository.installation_id == installation_id]
        for queue in queues:
            for entry in await change.tx.entries.of_queue(queue.id):
                if entry.blocked_until is not None:
                    await change.tx.entries.save(replace(entry, blocked_until=None))
                    await change.tx.queues.wake(queue.id, change.now)
                    _log.info("unblocked", repository=entry.repository.full_name, number=entry.number)
        own = {each.repository.id: each.repository for each in queues}
        released = [await _resume(change, repository, queues) for _, repository in sorted(own.items())]
        letters = await change.tx.dead_letters.list(_MOST_RESENT, job_type=OUTBOX_JOB, retryable=True)
        refused = [each.payload for each in letters if each.payload.get("repository_id") in own]
        sent = [await change.tx.outbox.requeue(payload, change.now) for payload in refused]
        await change.tx.sweeps.forget(refused_labels(installation_id))
        await change.tx.sweeps.done(changed_teams(installation_id), change.now)
    if count := sum(sent) + sum(released):
        _log.info("refused_writes_sent_again", installation=installation_id, count=count)


async def _resume(change: Change, repository: Repository, queues: Sequence[Queue]) -> int:
    """Resume a repository; one that was found archived or gone is read first: how many writes are sent again."""
    pauses = [each.pause(Reason.GITHUB_REFUSES) for each in queues if each.repository.id == repository.id]
    if any(pause is not None and pause.until is not None for pause in pauses):
        await enqueue_examination(change, repository)
        return 0
    return await resume_refused(change, repository)


async def teams_changed(engine: Engine, installation_id: int) -> None:
    """Have the members of this installation's teams read again."""
    async with engine.change() as change:
        await change.tx.sweeps.done(changed_teams(installation_id), change.now)
