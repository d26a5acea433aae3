"""Find out whether the database may be a restored copy, and have IMQ read and search first in one.

Every start asks this, so it stands apart from the models of queue files.
"""

from datetime import datetime

from sqlalchemy import Select, delete, false, func, insert, literal, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.jobs.job import jobs
from queue_engine.store.outbox.items import OutboxKind
from queue_engine.store.outbox.outbox import IS_QUEUED
from queue_engine.store.tables import entries, known_facts, outbox, processes, sweeps, timeline

_NEWEST: tuple[Select[tuple[datetime | None]], ...] = (
    select(timeline.c.at).order_by(timeline.c.id.desc()).limit(1),
    *(select(func.max(at)) for at in (jobs.c.updated_at, known_facts.c.at, sweeps.c.at, processes.c.seen_at)),
)
NEWEST_WRITE = select(*(newest.scalar_subquery() for newest in _NEWEST))
"""The newest row of each table to which IMQ writes regularly."""

MARK = "copied"
"""Name under which a copy of the database keeps that it is one."""
MARK_COPY = f"INSERT INTO sweeps (part, at) VALUES ('{MARK}', '1970-01-01 00:00:00.000000')"  # noqa: S608 - constants
"""For SQLite; the statement marks a copy that is no running database yet."""
_UNMARK = delete(sweeps).where(sweeps.c.part == MARK)

REFETCH_ALL = (
    update(entries)
    .values(needs_refetch=True, version=entries.c.version + 1)
    .where(~entries.c.needs_refetch)
    .returning(entries.c.queue_id)
)
_SEARCHED = ("kind", "repository_id", "number", "maybe_created", "version", "attempts", "dead", "updated_at")
SEARCH_CHECK_RUNS = (
    update(outbox)
    .values(maybe_created=True, announced_at=None)
    .where(outbox.c.kind == OutboxKind.CHECK_RUN, IS_QUEUED),
    insert(outbox).from_select(
        _SEARCHED,
        select(
            literal(OutboxKind.CHECK_RUN.value),
            entries.c.repository_id,
            entries.c.number,
            true(),
            literal(1),
            literal(0),
            false(),
            entries.c.enqueued_at,
        ).where(
            ~select(outbox.c.id)
            .where(
                outbox.c.kind == OutboxKind.CHECK_RUN,
                outbox.c.repository_id == entries.c.repository_id,
                outbox.c.number == entries.c.number,
            )
            .exists()
        ),
    ),
)
"""Check runs of entries that the backup does not know."""
SEARCH_COMMENTS = (
    update(outbox)
    .values(maybe_created=True)
    .where(outbox.c.kind == OutboxKind.COMMENT, or_(IS_QUEUED, outbox.c.due_at.is_not(None)))
)


async def newest_write(connection: AsyncConnection) -> datetime | None:
    """Return about when any process last wrote to this database; None if none ever did."""
    row = (await connection.execute(NEWEST_WRITE)).one()
    return max((at for at in row if at is not None), default=None)


async def unmark_copy(connection: AsyncConnection) -> bool:
    """Remove the mark of a copy; returns whether this database has been one since its last start."""
    return (await connection.execute(_UNMARK)).rowcount > 0


async def refetch_all(connection: AsyncConnection) -> frozenset[int]:
    """Mark every entry `needs_refetch`, so that IMQ reads its pull request first. Returns the queues of these entries.

    The dispatcher searches GitHub for the comment and the check run of each entry, and for each due comment, before it
    edits.
    """
    marked = frozenset(await connection.scalars(REFETCH_ALL))
    for statement in (SEARCH_COMMENTS, *SEARCH_CHECK_RUNS):
        await connection.execute(statement)
    return marked
