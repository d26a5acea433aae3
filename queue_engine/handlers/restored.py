"""Handle databases that may be restored backups: read GitHub before acting on stored data.

In a backup, pull requests are queued that IMQ has landed since. For these, an update request or an edit of the comment
"Landed" would be wrong. IMQ suspects a backup if no process wrote to the database for a while.
"""

from datetime import timedelta

import structlog

from queue_engine.effects.context import Change
from queue_engine.handlers.stale_comments import doubt_comments
from queue_engine.store.operations.restored import newest_write, refetch_all

_log = structlog.get_logger("imq.restored")

_LONGEST_PAUSE = timedelta(minutes=1)
"""The longest pause without writes that is no sign of a backup: deploys and restarts take less time."""


async def refetch_after_pause(change: Change) -> None:
    """If no process wrote to the database for a while, have each queued pull request read before anything else.

    Call this at the start of a process, before any other write. It costs one or two reads for each entry.
    """
    last = await newest_write(change.tx.connection)
    if last is None or change.now - last <= _LONGEST_PAUSE:
        return
    await doubt_comments(change)
    queues = await refetch_all(change.tx.connection)
    for queue_id in sorted(queues):
        await change.tx.queues.wake(queue_id, change.now)
    _log.info("database_may_be_restored", written=last.isoformat(), queues=len(queues))
