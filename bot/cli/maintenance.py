"""Maintain the database from the command line, beside or before the running processes."""

from datetime import UTC, datetime

from bot.settings.environment import Settings
from queue_engine.control import pauses
from queue_engine.core.database.database import Database
from queue_engine.effects.context import Change
from queue_engine.migrations import migrate as migrate_database
from queue_engine.store import Store


class NoSuchPause(Exception):
    """There is nothing to resume; the message says what there is instead."""


async def migrate(settings: Settings) -> None:
    """Create or update the database's tables."""
    database = Database(settings.database_url.get_secret_value())
    try:
        await migrate_database(database)
    finally:
        await database.close()


async def resume(store: Store, repository: str, base_branch: str) -> str:
    """Let a paused queue go on; returns why it was paused. Raises NoSuchPause when it is not paused or not known."""
    async with store.transaction() as tx:
        wanted = repository.casefold()
        queues = [queue for queue in await tx.queues.all() if queue.repository.full_name.casefold() == wanted]
        queue = next((queue for queue in queues if queue.base_branch == base_branch), None)
        if queue is None:
            known = ", ".join(queue.base_branch for queue in queues) or "none"
            raise NoSuchPause(f"{repository} has no queue for {base_branch}. Its queues: {known}")
        # Those who wait are told by the running process, which is woken.
        resumed = await pauses.resume(Change(tx, datetime.now(UTC)), queue.repository, base_branch, by=None)
        if not resumed.lifted:
            raise NoSuchPause(f"the queue of {repository} for {base_branch} is not paused")
        return "; ".join(f"{reason.value}: {detail}" if detail else reason.value for reason, detail in resumed.lifted)
