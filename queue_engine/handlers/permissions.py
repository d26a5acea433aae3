"""Unblock entries when a maintainer grants IMQ's installation more permissions.

An entry that changes workflows while IMQ lacks the permission is blocked: it is `pending`, and its queue proceeds
without it. IMQ learns from GitHub's webhook that a maintainer accepted the permission.
"""

from dataclasses import replace

import structlog

from queue_engine.effects.context import Engine

_log = structlog.get_logger("imq.permissions")


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
