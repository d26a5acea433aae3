"""Claim due jobs for a worker: the first of each process, and on PostgreSQL none that another worker takes."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, Select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.jobs.job import Job, job_of
from queue_engine.core.jobs.job_table import CLAIM, CLAIM_CONTESTED, LOCK_CONTESTED, POISON_DEATHS


async def claim(
    connection: AsyncConnection,
    due: tuple[Select[Any], ...],
    limit: int,
    owner: str,
    now: datetime,
    lease: timedelta,
) -> tuple[Job, ...]:
    """Claim up to `limit` of the jobs that `due` selects, until `now + lease`; of poison jobs one at most."""
    chosen = await _first_due(connection, due, limit, now)
    put_off = [row for row in chosen if row.deaths >= POISON_DEATHS][1:]
    chosen = [row for row in chosen if row not in put_off]
    by = {"claimed_at": now, "claimed_by": owner, "claimed_until": now + lease}
    taken = await _claim(connection, chosen, by)
    return tuple(job_of(taken[row.seq]) for row in chosen if row.seq in taken)


async def _first_due(
    connection: AsyncConnection, due: tuple[Select[Any], ...], limit: int, now: datetime
) -> Sequence[Row[Any]]:
    found: list[Row[Any]] = []
    for each in due:
        found += await connection.execute(each, {"claimed_at": now, "at_most": limit})
    found.sort(key=lambda row: (-row.priority, row.seq))
    # Of two of one process, of which one was overtaken and is due again, only the first.
    first: dict[str, Row[Any]] = {}
    for row in found:
        if len(first) < limit:
            first.setdefault(row.process_id, row)
    return tuple(first.values())


async def _claim(connection: AsyncConnection, chosen: Iterable[Row[Any]], by: Mapping[str, Any]) -> dict[int, Row[Any]]:
    """Claim these, by their numbers; on PostgreSQL not those of a process that another worker has just taken from.

    Two workers may at once see two jobs of one process as next, of which one failed before; neither sees what the
    other is about to do. Such a process is locked until the commit, and then looked at again. SQLite's one writer
    goes one after another.
    """
    shared = connection.dialect.name == "postgresql"
    at_once: list[int] = []
    contested: list[int] = []
    for row in chosen:
        (contested if row.contested and shared else at_once).append(row.seq)
    taken: dict[int, Row[Any]] = {}
    if contested:
        locked = list(await connection.scalars(LOCK_CONTESTED, {"chosen": contested}))
        if locked:
            rows = await connection.execute(CLAIM_CONTESTED, {**by, "chosen": locked})
            taken |= {row.seq: row for row in rows}
    if at_once:
        taken |= {row.seq: row for row in await connection.execute(CLAIM, {**by, "chosen": at_once})}
    return taken
