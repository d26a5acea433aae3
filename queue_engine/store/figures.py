"""Count the rows of the database, with ages and without any name; and the latest report of each process."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import ColumnElement, FromClause, Select, Subquery, and_, delete, func, or_, select, type_coerce
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant, insert_into
from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.core.jobs.job import JobStatus, failed_jobs, jobs
from queue_engine.store.order import HELD, NOT_READY, WITH_ROOM
from queue_engine.store.outbox.items import LATE, OutboxKind
from queue_engine.store.queues import PAUSED_UNTIL_RESUMED
from queue_engine.store.tables import entries, outbox, processes, queues, runs

LATELY = timedelta(hours=1)
"""How long a dead letter counts as recent."""


@dataclass(frozen=True, slots=True)
class JobFigures:
    """The job store: jobs by kind and status, and since when the longest due job waits."""

    stored: Mapping[tuple[str, str], int]
    due_since: datetime | None
    dead: Mapping[str, int]
    dead_retryable: int
    dead_lately: int
    dead_since: datetime | None


@dataclass(frozen=True, slots=True)
class QueueFigures:
    """All queues together; `paused` counts queues that a person has to resume, `deepest` is the greatest depth.

    `front_since` is when the oldest front became first in its queue, over all queues without a blocker.
    """

    queues: int
    paused: int
    due_since: datetime | None
    entries: Mapping[str, int]
    deepest: int
    held: int
    not_ready: int
    front_since: datetime | None = None


@dataclass(frozen=True, slots=True)
class OutboxFigures:
    """The items that wait to be sent to GitHub."""

    waiting: int
    due_since: datetime | None
    late: int = 0
    """Comments and check runs that a limit of GitHub's has held for long, or that no dispatcher has taken."""


class Figures:
    """The figures, on one connection; in a read-only transaction all are of one instant."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of_jobs(self, now: datetime) -> JobFigures:
        """Count jobs and dead letters."""
        stored = select(jobs.c.kind, jobs.c.status, func.count()).group_by(jobs.c.kind, jobs.c.status)
        dead_letters = DeadLetters(self._connection)
        dead = select(failed_jobs.c.job_type, func.count()).group_by(failed_jobs.c.job_type)
        pending = and_(jobs.c.status == JobStatus.PENDING, jobs.c.not_before <= now)
        return JobFigures(
            stored={(kind, status): count for kind, status, count in await self._connection.execute(stored)},
            due_since=await self._earliest(jobs.c.not_before, pending),
            dead=await self._by_name(dead),
            dead_retryable=await dead_letters.count(retryable=True),
            dead_lately=await self._count(failed_jobs, failed_jobs.c.failed_at > now - LATELY),
            dead_since=await dead_letters.oldest(),
        )

    async def of_queues(self, now: datetime) -> QueueFigures:
        """Count queues, entries with room, and entries that wait for room."""
        with_room = select(entries.c.status, func.count()).where(WITH_ROOM).group_by(entries.c.status)
        depths = select(func.count().label("depth")).where(WITH_ROOM).group_by(entries.c.queue_id).subquery()
        free = or_(queues.c.leased_until.is_(None), queues.c.leased_until <= now)
        due = and_(queues.c.due_at <= now, free)
        return QueueFigures(
            queues=await self._count(queues),
            paused=await self._count(queues, PAUSED_UNTIL_RESUMED),
            due_since=await self._earliest(queues.c.due_at, due),
            entries=await self._by_name(with_room),
            deepest=await self._one(select(func.coalesce(func.max(depths.c.depth), 0))),
            held=await self._count(entries, HELD),
            not_ready=await self._count(entries, NOT_READY),
            front_since=await self._earliest(_fronts(now).c.since),
        )

    async def of_outbox(self, now: datetime) -> OutboxFigures:
        """Count the items of the outbox."""
        free = or_(outbox.c.leased_until.is_(None), outbox.c.leased_until <= now)
        late = or_(outbox.c.held_since < now - LATE, outbox.c.due_at < now - LATE)
        words = and_(outbox.c.kind != OutboxKind.LABEL, outbox.c.due_at.is_not(None))
        return OutboxFigures(
            waiting=await self._count(outbox, outbox.c.due_at.is_not(None)),
            due_since=await self._earliest(outbox.c.due_at, and_(outbox.c.due_at <= now, free)),
            late=await self._count(outbox, words, late),
        )

    async def _by_name(self, statement: Select[str, int]) -> dict[str, int]:
        return dict(list(await self._connection.execute(statement)))

    async def _count(self, table: FromClause, *conditions: ColumnElement[bool]) -> int:
        return int(await self._one(select(func.count()).select_from(table).where(*conditions)))

    async def _earliest(self, column: ColumnElement[Any], *conditions: ColumnElement[bool]) -> datetime | None:
        found: datetime | None = await self._one(
            select(type_coerce(func.min(column), DatabaseInstant)).where(*conditions)
        )
        return found

    async def _one(self, statement: Any) -> Any:
        return (await self._connection.execute(statement)).scalar_one()


def _fronts(now: datetime) -> Subquery:
    """Select since when each queue without an announced blocker has its front.

    A queue whose front has not begun should begin it at once: then its oldest entry counts, from its enqueueing on.
    """
    since = func.coalesce(func.min(runs.c.started_at), func.min(entries.c.enqueued_at)).label("since")
    joined = entries.join(queues, queues.c.id == entries.c.queue_id).outerjoin(runs, runs.c.id == entries.c.run_id)
    may_proceed = or_(entries.c.blocked_until.is_(None), entries.c.blocked_until <= now)
    free = select(since).select_from(joined).where(queues.c.announced.is_(None), WITH_ROOM, may_proceed)
    return free.group_by(entries.c.queue_id).subquery()


ALIVE = timedelta(minutes=2)
"""How long a process counts as running after its last report. Processes report every 30 seconds."""

_FORGOTTEN = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class ProcessReport:
    """The report of one process: its figures as plain data, and its page for Prometheus."""

    owner: str
    status: Mapping[str, Any]
    metrics: str


class Processes:
    """The reports, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def report(self, owner: str, now: datetime, status: Mapping[str, Any], metrics: str) -> None:
        """Replace the report of this process. A process that was killed disappears after an hour."""
        values = {"seen_at": now, "status": dict(status), "metrics": metrics}
        await self._connection.execute(
            insert_into(self._connection, processes)
            .values(owner=owner, **values)
            .on_conflict_do_update(index_elements=["owner"], set_=values)
        )
        # A report under a clock far ahead would remain for ever.
        gone = ~processes.c.seen_at.between(now - _FORGOTTEN, now + _FORGOTTEN)
        await self._connection.execute(delete(processes).where(gone))

    async def all(self, now: datetime) -> tuple[ProcessReport, ...]:
        """Return every process that reported within ALIVE, in the order of their names."""
        alive = (
            select(processes).where(processes.c.seen_at.between(now - ALIVE, now + ALIVE)).order_by(processes.c.owner)
        )
        return tuple(ProcessReport(row.owner, row.status, row.metrics) for row in await self._connection.execute(alive))

    async def forget(self, owner: str) -> None:
        """This process ends."""
        await self._connection.execute(delete(processes).where(processes.c.owner == owner))
