"""`imq resume`: resume a paused queue, beside the running processes."""

import click

from bot.cli.console import RepositoryName, echo
from bot.cli.host import account, host_settings, run_with_store
from notifications.sinks.sink import SinkJobs
from queue_engine.control import pauses
from queue_engine.core.timing.clock import SystemClock
from queue_engine.effects.context import Change, EventJobs, no_jobs
from queue_engine.store import Store
from queue_engine.store.action_records import ActionKind


@click.command()
@click.argument("repository", metavar="OWNER/REPO", type=RepositoryName())
@click.argument("branch", default="main")
def resume(repository: str, branch: str) -> None:
    """Resume the paused queue of a base branch; without BRANCH that of main."""
    jobs_of = SinkJobs(host_settings(quiet=True).sinks).of_event
    cause = run_with_store(lambda store: resume_queue(store, repository, branch, jobs_of=jobs_of))
    echo(f"Resumed the queue of {repository} for {branch}, which was paused for {cause}")


async def resume_queue(store: Store, repository: str, base_branch: str, *, jobs_of: EventJobs = no_jobs) -> str:
    """Return why the queue was paused. Raises ClickException when it is not paused or not known."""
    async with store.transaction() as tx:
        wanted = repository.casefold()
        queues = [queue for queue in await tx.queues.all() if queue.repository.full_name.casefold() == wanted]
        queue = next((queue for queue in queues if queue.base_branch == base_branch), None)
        if queue is None:
            known = ", ".join(queue.base_branch for queue in queues) or "none"
            raise click.ClickException(f"{repository} has no queue for {base_branch}. Its queues: {known}")
        # The running process, which this wakes, announces it on the pull requests.
        now = SystemClock().now()
        resumed = await pauses.resume(Change(tx, now, jobs_of), queue.repository, base_branch, by=None)
        if not resumed.lifted:
            raise click.ClickException(f"the queue of {repository} for {base_branch} is not paused")
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
