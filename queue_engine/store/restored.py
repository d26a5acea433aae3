"""Statements for a database that may be a restored backup: when it was written last, and what to read again."""

from datetime import datetime

from sqlalchemy import Select, func, or_, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.job_table import jobs
from queue_engine.store.letters import LetterKind
from queue_engine.store.outbox_statements import STANDING
from queue_engine.store.tables import entries, known_facts, outbox, processes, sweeps, timeline

_NEWEST: tuple[Select[tuple[datetime | None]], ...] = (
    select(timeline.c.at).order_by(timeline.c.id.desc()).limit(1),
    *(select(func.max(at)) for at in (jobs.c.updated_at, known_facts.c.at, sweeps.c.at, processes.c.seen_at)),
)
NEWEST_WRITE = select(*(newest.scalar_subquery() for newest in _NEWEST))
"""When the newest row of each table was written that IMQ writes regularly."""

SUSPECT_ALL = (
    update(entries)
    .values(suspect=True, version=entries.c.version + 1)
    .where(~entries.c.suspect)
    .returning(entries.c.queue_id)
)
LOOK_FOR_COMMENTS = (
    update(outbox)
    .values(unsure=True)
    .where(outbox.c.kind == LetterKind.COMMENT, or_(STANDING, outbox.c.due_at.is_not(None)))
)


async def newest_write(connection: AsyncConnection) -> datetime | None:
    """When any process last wrote to this database, about; None if none ever did."""
    row = (await connection.execute(NEWEST_WRITE)).one()
    return max((at for at in row if at is not None), default=None)


async def suspect_all(connection: AsyncConnection) -> frozenset[int]:
    """Mark every entry `suspect`, so that its pull request is read first. Returns the queues of those entries.

    The comment of each entry, and each comment that is due, is looked for on GitHub before it is edited.
    """
    marked = frozenset(await connection.scalars(SUSPECT_ALL))
    await connection.execute(LOOK_FOR_COMMENTS)
    return marked
