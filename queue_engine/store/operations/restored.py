"""Statements for a database that may be a restored backup: its last write, and what to read again."""

from datetime import datetime

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.jobs.job_table import jobs
from queue_engine.store.operations.tables import known_facts, processes, sweeps
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.outbox.table import STANDING
from queue_engine.store.tables import entries, outbox, timeline

_NEWEST: tuple[Select[tuple[datetime | None]], ...] = (
    select(timeline.c.at).order_by(timeline.c.id.desc()).limit(1),
    *(select(func.max(at)) for at in (jobs.c.updated_at, known_facts.c.at, sweeps.c.at, processes.c.seen_at)),
)
NEWEST_WRITE = select(*(newest.scalar_subquery() for newest in _NEWEST))
"""When the newest row of each table was written that IMQ writes regularly."""

REFETCH_ALL = (
    update(entries)
    .values(needs_refetch=True, version=entries.c.version + 1)
    .where(~entries.c.needs_refetch)
    .returning(entries.c.queue_id)
)
LOOK_FOR_COMMENTS = (
    update(outbox)
    .values(maybe_created=True)
    .where(outbox.c.kind == OutboxKind.COMMENT, or_(STANDING, outbox.c.due_at.is_not(None)))
)


async def newest_write(connection: AsyncConnection) -> datetime | None:
    """When any process last wrote to this database, about; None if none ever did."""
    row = (await connection.execute(NEWEST_WRITE)).one()
    return max((at for at in row if at is not None), default=None)


async def refetch_all(connection: AsyncConnection) -> frozenset[int]:
    """Mark every entry `needs_refetch`, so that its pull request is read first. Returns the queues of those entries.

    The comment of each entry, and each comment that is due, is looked for on GitHub before it is edited.
    """
    marked = frozenset(await connection.scalars(REFETCH_ALL))
    await connection.execute(LOOK_FOR_COMMENTS)
    return marked
