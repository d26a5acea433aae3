"""Show a pull request and its queue as IMQ's database has them; read-only."""

import asyncio
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

from bot.settings.environment import Settings
from notifications import texts
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.domain.policy import Policy
from queue_engine.migrations import HEAD, current
from queue_engine.queries.pull_request_status import PullRequestStatus, load_pull_request
from queue_engine.queries.queue_status import load_summaries
from queue_engine.store import Store, Transaction


async def present(
    settings: Settings, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    """Return sentences for people: its place, what blocks its queue; or what was not looked at, and why."""
    database = Database(settings.database_url.get_secret_value())
    try:
        file = database.url.database or ""
        if database.dialect == "sqlite" and not await asyncio.to_thread(Path(file).exists):
            # Connecting would make an empty one, wherever somebody happens to stand.
            return (_unseen(f"no database {file} here"),)
        if await current(database) != HEAD:
            return (_unseen("the database has another version"),)
        async with Store(database).reading() as tx:
            return await _told(tx, repository_id, number, base_branch, policy, now)
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        return (_unseen(fault.sentence.rstrip(".")),)
    finally:
        await database.close()


def _unseen(why: str) -> str:
    return f"The state of the queue is unknown: {why}."


async def _told(
    tx: Transaction, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    policies = {base_branch: policy}
    found = await load_pull_request(tx, repository_id, number, policies, now)
    queues = await load_summaries(tx, now, repository_id=repository_id, policies=policies)
    queue = next((each for each in queues if each.queue.base_branch == base_branch), None)
    told = list(_place(found))
    if queue is None:
        return (*told, f"No pull request was queued for {base_branch} yet.")
    if found.entry is None and policy.max_depth and queue.depth >= policy.max_depth:
        told.append(f"The queue is full with {queue.depth} pull requests.")
    holding = queue.blockers
    if found.entry is not None and found.base_branch == base_branch:
        # An entry may be exempt from what holds others.
        holding = found.entry.blockers
    for blocker in holding:
        words = texts.REASONS[blocker.reason].sentence.format(base=base_branch, label=policy.trigger_label)
        told.append(f"The queue is blocked. {words}" + (f" ({blocker.detail})" if blocker.detail else ""))
    return (*told, f"Pull requests in the queue for {base_branch}: {queue.depth}.")


def _place(found: PullRequestStatus) -> Iterator[str]:
    if found.entry is not None:
        position = found.entry.position.position + 1
        yield f"Queued for {found.base_branch} at position {position}, {found.state}."
    elif found.held_behind is not None:
        yield "Waiting to join the queue."
    elif found.rejected is not None:
        yield f"Its head {found.rejected.head_sha[:7]} was rejected at {found.rejected.at:%Y-%m-%d %H:%M} UTC."
