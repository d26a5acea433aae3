"""Maintain the database from the command line, beside or before the running processes."""

from bot.cli.setup import account
from bot.settings.environment import HostSettings
from queue_engine.control import pauses
from queue_engine.core.database.database import Database
from queue_engine.core.timing.clock import SystemClock
from queue_engine.effects.context import Change, EventJobs, no_jobs
from queue_engine.migrations import migrate as migrate_database
from queue_engine.store import Store
from queue_engine.store.action_records import ActionKind


class NotPaused(Exception):
    """The queue is not paused, or does not exist; the message says which queues there are."""


async def migrate(settings: HostSettings) -> None:
    """Create or update the database's tables."""
    database = Database(settings.database_url.get_secret_value())
    try:
        await migrate_database(database)
    finally:
        await database.close()


async def resume(store: Store, repository: str, base_branch: str, *, jobs_of: EventJobs = no_jobs) -> str:
    """Resume a paused queue, and return why it was paused. Raises NotPaused when it is not paused or not known."""
    async with store.transaction() as tx:
        wanted = repository.casefold()
        queues = [queue for queue in await tx.queues.all() if queue.repository.full_name.casefold() == wanted]
        queue = next((queue for queue in queues if queue.base_branch == base_branch), None)
        if queue is None:
            known = ", ".join(queue.base_branch for queue in queues) or "none"
            raise NotPaused(f"{repository} has no queue for {base_branch}. Its queues: {known}")
        # The running process, which this wakes, announces it on the pull requests.
        now = SystemClock().now()
        resumed = await pauses.resume(Change(tx, now, jobs_of), queue.repository, base_branch, by=None)
        if not resumed.lifted:
            raise NotPaused(f"the queue of {repository} for {base_branch} is not paused")
        await tx.actions.add(
            ActionKind.QUEUE_RESUMED,
            base_branch,
            by=account(),
            via="command_line",
            at=now,
            repository=queue.repository,
            base_branch=base_branch,
        )
        return "; ".join(f"{reason.value}: {detail}" if detail else reason.value for reason, detail in resumed.lifted)
