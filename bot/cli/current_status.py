"""Show a pull request and its queue as IMQ's database has them; read-only."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bot.settings.environment import Settings
from notifications import texts
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.migrations import MigrationState, migration_state
from queue_engine.queries.pull_request_status import PullRequestStatus, load_pull_request
from queue_engine.queries.queue_status import load_summaries
from queue_engine.store import Store, Transaction


async def describe_status(
    settings: Settings, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    """Return sentences: its position and the queue's blockers, or why the database could not be read."""
    database = Database(settings.database_url.get_secret_value())
    try:
        file = database.url.database or ""
        if database.dialect == "sqlite" and not await asyncio.to_thread(Path(file).exists):
            # Connecting would create an empty file in the current directory.
            return (_unknown(f"no database {file} here"),)
        if await migration_state(database) is not MigrationState.USABLE:
            return (_unknown("the database has another version"),)
        async with Store(database).reading() as tx:
            return await _describe(tx, repository_id, number, base_branch, policy, now)
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        return (_unknown(fault.sentence.rstrip(".")),)
    finally:
        await database.close()


def _unknown(why: str) -> str:
    return f"The state of the queue is unknown: {why}."


async def _describe(
    tx: Transaction, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    policies = {base_branch: policy}
    found = await load_pull_request(tx, repository_id, number, policies, now)
    queues = await load_summaries(tx, now, repository_id=repository_id, policies=policies)
    queue = next((each for each in queues if each.queue.base_branch == base_branch), None)
    lines = list(_position(found))
    if queue is None:
        return (*lines, f"No pull request was queued for {base_branch} yet.")
    if found.entry is None and not queue.accepts(policy.depth):
        lines.append(f"The queue is full with {queue.depth} pull requests.")
    blockers = queue.blockers
    if found.entry is not None and found.base_branch == base_branch:
        # An entry may be exempt from some blockers.
        blockers = found.entry.blockers
    for blocker in blockers:
        sentence = texts.REASONS[blocker.reason].sentence.format(base=base_branch, label=policy.trigger_label)
        lines.append(f"The queue is blocked. {sentence}" + (f" ({blocker.detail})" if blocker.detail else ""))
    return (*lines, f"Pull requests in the queue for {base_branch}: {queue.depth}.")


def _position(found: PullRequestStatus) -> Iterator[str]:
    if found.entry is not None:
        position = found.entry.entry.position + 1
        yield f"Queued for {found.base_branch} at position {position}, {found.state}."
    elif found.held_behind is not None:
        yield "Waiting for room in the queue."
    elif found.rejected is not None:
        yield f"Its head {found.rejected.head_sha[:7]} was rejected at {found.rejected.at:%Y-%m-%d %H:%M} UTC."
