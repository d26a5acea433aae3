"""Handle databases that may be restored backups: read GitHub before acting on stored data.

In a backup, pull requests are queued that IMQ has landed since. For these, an update request or an edit of the comment
"Landed" would be wrong. IMQ suspects a backup if no process wrote to the database for a while, and knows one that
`imq backup` made. Queues that were imported from a file are as old as the file.
"""

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from queue_engine.domain.errors import EntryConflict
from queue_engine.domain.notice import ReplyKind
from queue_engine.effects.context import Change
from queue_engine.effects.landings import follow_search
from queue_engine.executor.run_request import enqueue_test
from queue_engine.handlers.stale_comments import doubt_comments
from queue_engine.store.restored import newest_write, refetch_all, unmark_copy

if TYPE_CHECKING:
    from queue_engine.store.queue_file import QueueFile

_log = structlog.get_logger("imq.restored")

_LONGEST_PAUSE = timedelta(minutes=1)
"""The longest pause without writes that is no sign of a backup: deploys and restarts take less time."""


async def refetch_after_pause(change: Change) -> None:
    """If the database may be a backup, have each queued pull request read before anything else.

    Call this at the start of a process, before any other write. It costs one or two reads for each entry.
    """
    copied = await unmark_copy(change.tx.connection)
    last = await newest_write(change.tx.connection)
    if last is None or (change.now - last <= _LONGEST_PAUSE and not copied):
        return
    await doubt_comments(change)
    queues = await refetch_all(change.tx.connection)
    for queue_id in sorted(queues):
        await change.tx.queues.wake(queue_id, change.now)
    _log.info("database_may_be_restored", written=last.isoformat(), queues=len(queues))


async def import_queues(change: Change, file: "QueueFile") -> bool:
    """Store the queues of a file. False if they were imported before: then nothing is stored.

    Each pull request is read, and its comment searched, before IMQ acts. Raises EntryConflict if a queue has entries
    here already, or if the file contradicts itself.
    """
    from queue_engine.store.queue_file import is_known, restore_queues

    connection = change.tx.connection
    if await is_known(connection, [row.id for row in file.entries]):
        return False
    for queue_id in await restore_queues(connection, file):
        await change.tx.queues.wake(queue_id, change.now)
        try:
            await change.tx.queues.get(queue_id)
            await change.tx.entries.of_queue(queue_id)
            searches = await change.tx.culprits.of_queue(queue_id)
        except (TypeError, ValueError, KeyError) as error:
            # Refused now, and not by every pass over the queue.
            raise EntryConflict("the file has values that IMQ cannot read") from error
        for search in (each for each in searches if each.outcome is None):
            await follow_search(change, queue_id, search.tip, search.check)
    await _continue_tests(change, file)
    await doubt_comments(change)
    return True


async def _continue_tests(change: Change, file: "QueueFile") -> None:
    """Enqueue the tests by `/try` that were under way: their replies have their state."""
    for row in file.answers:
        for reply in row.replies:
            repository = await change.tx.repositories.by_id(row.repository_id)
            if reply.get("code") == ReplyKind.TRYING and repository is not None:
                branch = reply["facts"]["base_branch"]
                await enqueue_test(change, repository, row.number, branch, by=row.by, comment=row.comment_id)
