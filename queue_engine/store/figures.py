"""Count the rows of the database, without any name; keep the latest report and the rate limits of the processes."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    FromClause,
    Subquery,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    outerjoin,
    select,
    type_coerce,
)

from queue_engine.core.database.database import DatabaseInstant, TableStore, Upsert, insert_into
from queue_engine.core.jobs.dead_letters import DeadLetters
from queue_engine.core.jobs.job import JobStatus, failed_jobs, jobs
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.run import Run, RunState
from queue_engine.store.order import HELD, NOT_READY, WITH_ROOM
from queue_engine.store.outbox.items import LATE, OutboxKind
from queue_engine.store.queues import PAUSED_UNTIL_RESUMED
from queue_engine.store.tables import entries, outbox, pace_pauses, pace_reservations, processes, queues, runs

LATELY = timedelta(hours=1)
"""How long a dead letter counts as recent."""


Gauges = dict[str, float | Mapping[tuple[str, ...], float]]
"""Gauges by the names of `bot.metrics.families`: a number, or one for each combination of labels. Ages are seconds."""

_WAITING = (EntryStatus.PENDING, EntryStatus.UPDATING, EntryStatus.CHECKING, EntryStatus.READY)


class Figures(TableStore):
    """The figures, on one connection; in a read-only transaction all are of one instant."""

    async def of_jobs(self, now: datetime) -> Gauges:
        """Count jobs and dead letters."""
        stored = select(jobs.c.kind, jobs.c.status, func.count()).group_by(jobs.c.kind, jobs.c.status)
        dead_letters = DeadLetters(self._connection)
        dead = select(failed_jobs.c.job_type, func.count()).group_by(failed_jobs.c.job_type)
        pending = and_(jobs.c.status == JobStatus.PENDING, jobs.c.not_before <= now)
        found = await self._connection.execute(stored)
        return {
            "jobs": {(kind, JobStatus(status).lower()): count for kind, status, count in found},
            "jobs_oldest_due_seconds": await self._age(now, jobs.c.not_before, pending),
            "dead_letters": {(kind,): count for kind, count in await self._connection.execute(dead)},
            "dead_letters_retryable": await dead_letters.count(retryable=True),
            "dead_letters_last_hour": await self._count(failed_jobs, failed_jobs.c.failed_at > now - LATELY),
            "dead_letters_oldest_seconds": await self._age(now, failed_jobs.c.failed_at),
        }

    async def of_queues(self, now: datetime) -> Gauges:
        """Count queues, entries with room, and entries that wait for room.

        Paused are queues that a person has to resume. The oldest front is that of all queues without a blocker.
        """
        found = (
            select(runs.c.state, runs.c.trigger, func.count())
            .select_from(outerjoin(entries, runs, runs.c.id == entries.c.run_id))
            .where(WITH_ROOM)
            .group_by(runs.c.state, runs.c.trigger)
        )
        with_room = Counter[str]()
        for state, trigger, count in await self._connection.execute(found):
            with_room[EntryStatus.of(Run(state=state and RunState(state), trigger=trigger))] += count
        depths = select(func.count().label("depth")).where(WITH_ROOM).group_by(entries.c.queue_id).subquery()
        free = or_(queues.c.leased_until.is_(None), queues.c.leased_until <= now)
        return {
            "queues": await self._count(queues),
            "queues_paused": await self._count(queues, PAUSED_UNTIL_RESUMED),
            "queues_oldest_due_seconds": await self._age(now, queues.c.due_at, queues.c.due_at <= now, free),
            "front_oldest_seconds": await self._age(now, _fronts(now).c.since),
            "queue_entries": {(status.value,): with_room[status] for status in _WAITING},
            "queue_depth_max": await self._one(select(func.coalesce(func.max(depths.c.depth), 0))),
            "held_pull_requests": await self._count(entries, HELD),
            "not_ready_pull_requests": await self._count(entries, NOT_READY),
        }

    async def of_outbox(self, now: datetime) -> Gauges:
        """Count the items that wait to be sent to GitHub.

        Late are comments and check runs that a limit of GitHub's has held for long, or that no dispatcher has taken.
        """
        free = or_(outbox.c.leased_until.is_(None), outbox.c.leased_until <= now)
        late = or_(outbox.c.held_since < now - LATE, outbox.c.due_at < now - LATE)
        words = and_(outbox.c.kind != OutboxKind.LABEL, outbox.c.due_at.is_not(None))
        return {
            "outbox_waiting": await self._count(outbox, outbox.c.due_at.is_not(None)),
            "outbox_oldest_due_seconds": await self._age(now, outbox.c.due_at, outbox.c.due_at <= now, free),
            "outbox_late": await self._count(outbox, words, late),
        }

    async def _count(self, table: FromClause, *conditions: ColumnElement[bool]) -> int:
        return int(await self._one(select(func.count()).select_from(table).where(*conditions)))

    async def _age(self, now: datetime, column: ColumnElement[Any], *conditions: ColumnElement[bool]) -> float:
        """Return the age of the earliest instant; 0 if there is none."""
        since = await self._one(select(type_coerce(func.min(column), DatabaseInstant)).where(*conditions))
        return 0.0 if since is None else max(0.0, (now - since).total_seconds())

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


class Processes(TableStore):
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


POINTS, GRAPHQL_POINTS = "points", "graphql_points"
"""Kinds of reservations that expire after `VALID`; every other kind is used as soon as it is reserved."""

VALID = timedelta(seconds=2)
"""How long reserved points may be used: they count until a minute after that."""

_POINTS = (POINTS, GRAPHQL_POINTS)

_MINUTE, _HOUR = timedelta(minutes=1), timedelta(hours=1)

_LOCK = 0x50414345
"""Distinguishes the locks of installations from other advisory locks on the same PostgreSQL."""
_LOCK_INSTALLATION = select(
    func.pg_advisory_xact_lock(_LOCK, func.hashint8(bindparam("its_installation", type_=BigInteger)))
)

_ITS_INSTALLATION = pace_reservations.c.installation_id == bindparam("its_installation")
_AN_HOUR_AGO: BindParameter[datetime] = bindparam("an_hour_ago", type_=DatabaseInstant)
_A_MINUTE_AGO: BindParameter[datetime] = bindparam("a_minute_ago", type_=DatabaseInstant)
_PAUSED = "paused"
"""In place of a kind: the row has the instant at which a pause ends."""
_STORED = (
    select(*(pace_reservations.c[name] for name in ("kind", "at", "amount", "owner", "id")))
    .where(_ITS_INSTALLATION)
    .union_all(
        select(literal(_PAUSED), pace_pauses.c.until, literal(0), literal(""), literal(0)).where(
            pace_pauses.c.installation_id == bindparam("its_installation")
        )
    )
    .order_by("at", "id")
)
_FORGET = delete(pace_reservations).where(
    _ITS_INSTALLATION,
    or_(
        pace_reservations.c.at <= _AN_HOUR_AGO,
        and_(pace_reservations.c.kind.in_(_POINTS), pace_reservations.c.at <= _A_MINUTE_AGO),
    ),
)
_MOST_EXPIRED = 20
"""Reservations that have left all windows, before they are deleted together."""
_RESERVE = insert(pace_reservations)
_PAUSE = Upsert(
    pace_pauses,
    lambda statement: statement.on_conflict_do_update(
        index_elements=["installation_id"],
        set_={"until": statement.excluded.until},
        where=pace_pauses.c.until < statement.excluded.until,
    ),
)


@dataclass(frozen=True, slots=True)
class RateLimitRequest:
    """A reserved amount of one kind, which was, or may be, used at `at` at the latest."""

    kind: str
    at: datetime
    amount: int
    owner: str


@dataclass(frozen=True, slots=True)
class SharedLimits:
    """The reservations of all processes within GitHub's windows, oldest first, and until when all processes pause."""

    reservations: tuple[RateLimitRequest, ...]
    paused_until: datetime | None


class RateLimits(TableStore):
    """The shared rate limits, on one connection. The App itself is installation 0."""

    async def lock(self, installation_id: int, now: datetime) -> SharedLimits:
        """Lock an installation's limits until the transaction ends, and return the reservations.

        Deletes those that have left all windows, many together.
        """
        if self._connection.dialect.name == "postgresql":
            await self._connection.execute(_LOCK_INSTALLATION, {"its_installation": installation_id})
        rows = (await self._connection.execute(_STORED, {"its_installation": installation_id})).all()
        paused = next((row.at for row in rows if row.kind == _PAUSED), None)
        stored = [row for row in rows if row.kind != _PAUSED]
        taken = [row for row in stored if now - row.at < (_MINUTE + VALID if row.kind in _POINTS else _HOUR)]
        if len(stored) - len(taken) >= _MOST_EXPIRED:
            await self._connection.execute(_FORGET, _bounds(installation_id, now))
        reservations = tuple(
            RateLimitRequest(
                row.kind, min(now, row.at + VALID) if row.kind in _POINTS else row.at, row.amount, row.owner
            )
            for row in taken
        )
        return SharedLimits(reservations, paused)

    async def reserve(
        self, installation_id: int, owner: str, amounts: Sequence[tuple[str, int]], now: datetime
    ) -> None:
        """Reserve these amounts by kind."""
        rows = [
            {"installation_id": installation_id, "kind": kind, "at": now, "amount": amount, "owner": owner}
            for kind, amount in amounts
        ]
        await self._connection.execute(_RESERVE, rows)

    async def pause(self, installation_id: int, until: datetime) -> None:
        """Pause all processes until then, as GitHub asked; a longer pause remains."""
        values = {"installation_id": installation_id, "until": until}
        await self._connection.execute(_PAUSE.on(self._connection), values)


def _bounds(installation_id: int, now: datetime) -> dict[str, object]:
    return {"its_installation": installation_id, "an_hour_ago": now - _HOUR, "a_minute_ago": now - _MINUTE - VALID}
