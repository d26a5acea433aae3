"""Show a pull request and its queue as IMQ's database has them; read-only."""

import asyncio
from datetime import datetime
from pathlib import Path

from bot.settings.environment import Settings
from notifications.render.formats import instant
from notifications.render.status import Names, blocker_sentence, plain, status_lines
from notifications.texts.why import QUEUE_BLOCKED
from queue_engine.config.model import Policy
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.migrations import MigrationState, migration_state
from queue_engine.queries.pull_request_status import load_reply_facts
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
    facts = await load_reply_facts(tx, repository_id, number, base_branch, policy, now)
    found, queue = facts.pull_request, facts.queue
    names = Names.of(base_branch, policy)
    lines = [plain(line.sentence) for line in status_lines(found, names)]
    if (rejected := found.rejected) is not None:
        lines.append(f"Its head {rejected.head_sha[:7]} was rejected at {instant(rejected.at)}.")
    if queue is None:
        return (*lines, f"No pull request was queued for {base_branch} yet.")
    if found.entry is None:
        if policy.depth and queue.depth + queue.held >= policy.depth:
            lines.append(f"The queue is full with {queue.depth} pull requests.")
        lines += [plain(QUEUE_BLOCKED.format(sentence=blocker_sentence(each, names))) for each in queue.blockers]
    return (*lines, f"Pull requests in the queue for {base_branch}: {queue.depth}.")
