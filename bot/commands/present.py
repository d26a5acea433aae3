"""How a pull request and its queue stand at present, as far as IMQ's own database is within reach; only read."""

import asyncio
from datetime import datetime
from pathlib import Path

from bot.settings import Settings
from notifications import texts
from queue_engine.core.database import Database
from queue_engine.core.outage import fault_of
from queue_engine.insistence import turned_away
from queue_engine.migrations import HEAD, current
from queue_engine.policy import Policy
from queue_engine.standing import standstills
from queue_engine.store import Store, Transaction


async def present(
    settings: Settings, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    """Sentences for people: its place, what its queue stands still for; or what was not looked at, and why."""
    database = Database(settings.database_url.get_secret_value())
    try:
        file = database.url.database or ""
        if database.dialect == "sqlite" and not await asyncio.to_thread(Path(file).exists):
            # Connecting would make an empty one, wherever somebody happens to stand.
            return (_unseen(f"there is no database {file} here"),)
        if await current(database) != HEAD:
            return (_unseen("the database is of another version"),)
        async with Store(database).reading() as tx:
            return await _told(tx, repository_id, number, base_branch, policy, now)
    except Exception as error:
        if (fault := fault_of(error)) is None:
            raise
        return (_unseen(fault.sentence.rstrip(".")),)
    finally:
        await database.close()


def _unseen(why: str) -> str:
    return f"Not looked at: whether it is queued, full queues, pauses and red bases ({why})."


async def _told(
    tx: Transaction, repository_id: int, number: int, base_branch: str, policy: Policy, now: datetime
) -> tuple[str, ...]:
    told: list[str] = []
    entry = await tx.entries.find(repository_id, number)
    queue = await tx.queues.find(repository_id, base_branch)
    if entry is not None:
        told.append(f"It stands in the queue for {entry.base_branch}, position {entry.position + 1}, {entry.status}.")
    elif await tx.held.find(repository_id, number) is not None:
        told.append("It waits for a place in its queue.")
    elif (before := await turned_away(tx, repository_id, number)) is not None:
        told.append(f"Its head {before.head_sha[:7]} was turned away at {before.at:%Y-%m-%d %H:%M} UTC.")
    if queue is None:
        return (*told, f"Nothing was queued for {base_branch} before.")
    depth = await tx.entries.count(queue.id)
    if entry is None and policy.max_depth and depth >= policy.max_depth:
        told.append(f"The queue is full with {depth}: others wait for a place.")
    for stands in standstills(queue, policy, now):
        words = texts.REASONS[stands.reason].sentence.format(base=base_branch, label=policy.trigger_label)
        told.append(f"The queue stands still. {words}" + (f" ({stands.detail})" if stands.detail else ""))
    return (*told, f"{depth} {'stands' if depth == 1 else 'stand'} in the queue for {base_branch}.")
