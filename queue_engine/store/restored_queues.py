"""Statements that store queues in flight from a file.

Entries and comments are doubted like those of a restored backup: IMQ reads the pull request, and searches the comment,
before it acts on either.
"""

from typing import Any

from sqlalchemy import Table, delete, insert, update
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import insert_into
from queue_engine.core.database.outage import fault_of
from queue_engine.domain.consent import ConsentSource
from queue_engine.domain.errors import EntryConflict
from queue_engine.domain.model import PAUSES
from queue_engine.store.operation_tables import known_facts
from queue_engine.store.outbox.items import NAME, OutboxKind
from queue_engine.store.queue_file import QueueFile, queue_row
from queue_engine.store.tables import (
    answers,
    consents,
    entries,
    outbox,
    queues,
    rejections,
    repositories,
    runs,
    timeline,
)

_Row = dict[str, Any]


async def restore_queues(connection: AsyncConnection, file: QueueFile) -> tuple[int, ...]:
    """Store the queues of a file with all that belongs to them, and return their ids here.

    Raises EntryConflict for a queue that has entries here, and for a file that contradicts itself.
    """
    try:
        for row in _plain(file.repositories):
            # A known repository keeps its names: those of the file may be older.
            await connection.execute(insert_into(connection, repositories).values(row).on_conflict_do_nothing())
        ids = {row["id"]: await _queue(connection, row) for row in _plain(file.queues)}
        await _entries(connection, file, ids)
        await _outbox(connection, file)
        await _others(connection, file)
    except (DBAPIError, KeyError) as error:
        if fault_of(error) is not None:
            raise
        raise EntryConflict("the file contradicts itself") from error
    return tuple(ids.values())


async def _queue(connection: AsyncConnection, row: _Row) -> int:
    """Store a queue; one that is here already, without entries, keeps the pauses that the file does not have."""
    repository, branch = row["repository_id"], row["base_branch"]
    row = {name: value for name, value in row.items() if name != "id"}
    present = await queue_row(connection, repository, branch)
    if present is None:
        added = await connection.execute(insert(queues).values(row).returning(queues.c.id))
        return int(added.scalar_one())
    if present["depth"]:
        raise EntryConflict(f"the queue for {branch} in repository {repository} has {present['depth']} entries")
    kept = {reason.value for reason in PAUSES if row.get(reason.value) is None}
    changed = {name: value for name, value in row.items() if name not in kept}
    await connection.execute(update(queues).where(queues.c.id == present["id"]).values(changed))
    return int(present["id"])


async def _entries(connection: AsyncConnection, file: QueueFile, queue_ids: dict[int, int]) -> None:
    run_ids: dict[int, int] = {}
    branches = {row["id"]: row["base_branch"] for row in _plain(file.queues)}
    for row in _plain(file.runs):
        former = row.pop("id")
        run_ids[former] = (await connection.execute(insert(runs).values(row).returning(runs.c.id))).scalar_one()
    for row in sorted(_plain(file.entries), key=lambda row: row["seq"]):
        del row["seq"]  # The database numbers the entries again, in the same order.
        run = row.get("run_id")
        own = {
            "queue_id": queue_ids[row["queue_id"]],
            "run_id": None if run is None else run_ids[run],
            "needs_refetch": True,
        }
        await connection.execute(insert(entries).values(row | own))
        heads = {row["queued_head"], row["head"]} if row["head_proved"] else {row["queued_head"]}
        consent = {
            "entry_id": row["id"],
            "repository_id": row["repository_id"],
            "number": row["number"],
            "base_branch": branches[row["queue_id"]],
            "by": row["queued_by"],
            "at": row["enqueued_at"],
            "source": ConsentSource.IMPORTED.value,
        }
        await connection.execute(insert(consents), [consent | {"head": head} for head in sorted(heads)])


async def _outbox(connection: AsyncConnection, file: QueueFile) -> None:
    """Store what GitHub is to show. A comment is searched for before it is edited or created, so that none doubles."""
    for row in _plain(file.outbox):
        if row["kind"] != OutboxKind.LABEL:
            row["maybe_created"] = True
        await connection.execute(delete(outbox).where(*(outbox.c[name] == row[name] for name in NAME)))
        await connection.execute(insert(outbox).values(row))


async def _others(connection: AsyncConnection, file: QueueFile) -> None:
    for table, rows in ((timeline, file.timeline), (known_facts, file.known_facts)):
        if rows:
            await connection.execute(insert(table), _plain(rows))
    await _replace(connection, rejections, _plain(file.rejections))
    await _replace(connection, answers, _plain(file.answers))


async def _replace(connection: AsyncConnection, table: Table, rows: list[_Row]) -> None:
    for row in rows:
        await connection.execute(delete(table).where(*(key == row[key.name] for key in table.primary_key.columns)))
        await connection.execute(insert(table).values(row))


def _plain(rows: list[Any]) -> list[_Row]:
    """Return the rows as the file has them: columns that it does not have keep their defaults."""
    return [row.model_dump(exclude_unset=True) for row in rows]
