"""Handle databases that may be restored backups: read GitHub before acting on stored data.

A backup shows pull requests as queued that IMQ has landed since. An update-branch request, or an edit of a comment that
says "Landed", would be wrong. A backup looks like a database to which no process wrote for a while.
"""

from datetime import timedelta

import structlog

from queue_engine.effects.context import Change
from queue_engine.handlers.stale_comments import doubt_comments
from queue_engine.store.operations.restored import newest_write, refetch_all

_log = structlog.get_logger("imq.restored")

_LONGEST_PAUSE = timedelta(minutes=1)
"""A deploy, or a kill and the restart after it, takes less. A longer pause costs one or two reads for each entry."""


async def refetch_after_pause(change: Change) -> None:
    """Have every queued pull request read first, if no process wrote to the database for a while.

    Call it at the start of a process, before anything else is written.
    """
    last = await newest_write(change.tx.connection)
    if last is None or change.now - last <= _LONGEST_PAUSE:
        return
    await doubt_comments(change)
    queues = await refetch_all(change.tx.connection)
    for queue_id in sorted(queues):
        await change.tx.queues.wake(queue_id, change.now)
    _log.info("database_may_be_restored", written=last.isoformat(), queues=len(queues))
