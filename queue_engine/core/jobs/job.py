"""A job: its table and statements, the job as read from it, and the outcomes of its handler.

A handler returns an outcome, or raises. `is_retryable` (`queue_engine.domain.errors`) says whether trying again may
help: yes for no connection, 5xx, 408, limits and refusals that GitHub does not explain, never for another 4xx. What
cannot be read is dead at once; faults of IMQ are tried again. A hold is no attempt, and neither is a fault of the
database. Holds are counted for their reason alone, so that one does not use up the tries of another (`Job.holds`).
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any
from uuid import uuid4

from sqlalchemy import (
    JSON,
    Boolean,
    CheckConstraint,
    Column,
    ColumnElement,
    CompoundSelect,
    FromClause,
    Index,
    Integer,
    Row,
    Select,
    String,
    Table,
    Text,
    and_,
    bindparam,
    case,
    delete,
    exists,
    func,
    literal_column,
    or_,
    select,
    text,
    type_coerce,
    union_all,
    update,
)
from sqlalchemy.sql.dml import ReturningUpdate

from queue_engine.core.database.database import Counter, DatabaseInstant, metadata
from queue_engine.core.database.instants import InstantKind, instant


class JobStatus(StrEnum):
    PENDING = "PENDING"
    IN_PROGRESS = "IN_PROGRESS"
    COMPLETED = "COMPLETED"
    FAILED = "FAILED"


jobs = Table(
    "jobs",
    metadata,
    Column("seq", Counter, primary_key=True, autoincrement=True),
    Column("id", String(32), nullable=False, unique=True),
    Column("process_id", String(255), nullable=False, index=True),
    Column("kind", String(64), nullable=False),
    Column("request_json", JSON, nullable=False),
    Column("status", String(16), nullable=False),
    Column("response_json", JSON(none_as_null=True)),
    Column("error_message", Text),
    Column("attempt", Integer, nullable=False),
    Column("deaths", Integer, nullable=False, server_default="0"),
    Column("priority", Integer, nullable=False),
    Column("not_before", DatabaseInstant, nullable=False, info=instant(InstantKind.WAIT)),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("updated_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("owner", String(255)),
    Column("leased_until", DatabaseInstant, info=instant(InstantKind.LEASE)),
    Column("claims", Integer, nullable=False),
    Column("holds", JSON(none_as_null=True)),
    Column("trace", String(64)),
    CheckConstraint("status IN ('PENDING', 'IN_PROGRESS', 'COMPLETED', 'FAILED')", name="status"),
    sqlite_autoincrement=True,
)
Index("ix_jobs_status_priority_seq", jobs.c.status, jobs.c.priority.desc(), jobs.c.seq)
Index(
    "ix_jobs_failed",
    jobs.c.process_id,
    # It is partial on PostgreSQL as well, by its revision. Naming its dialect here would load it on SQLite: 3 MB.
    sqlite_where=text("error_message IS NOT NULL"),
)
"""For `_contested`: without it, each claim on PostgreSQL read the whole table, with all rows deleted since the last
vacuum.
"""

failed_jobs = Table(
    "failed_jobs",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("process_id", String(255), nullable=False),
    Column("job_type", String(64), nullable=False),
    Column("error_message", Text, nullable=False),
    Column("payload", JSON, nullable=False),
    Column("failed_at", DatabaseInstant, nullable=False, index=True, info=instant(InstantKind.PAST)),
    Column("retryable", Boolean, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("created_at", DatabaseInstant, nullable=False, info=instant(InstantKind.PAST)),
    Column("trace", String(64)),
)
"""Dead letters: jobs that failed for good, with all that is needed to do them again."""


POISON_DEATHS = 3
"""Attempts in a row that ended with their worker, after which a job may be their cause."""

DEATHS = jobs.c.deaths + case((jobs.c.status == JobStatus.IN_PROGRESS, 1), else_=0)
"""The attempts that ended with their worker: a claimed job whose lease has expired had one."""

_LOCKS = 20_260
"""Distinguishes the locks of processes from other advisory locks on the same PostgreSQL."""


def _unfinished(table: FromClause) -> ColumnElement[bool]:
    """The job is pending or in progress. `NOT IN` would be written out for each execution."""
    return and_(table.c.status != JobStatus.COMPLETED, table.c.status != JobStatus.FAILED)


# One alias for all statements: each has an object of SQLAlchemy's for each column, 35 KB in all.
_OTHER = jobs.alias("other")
_FAILED = jobs.alias("failed")


def _is_next(*, singly: bool = False) -> ColumnElement[bool]:
    """Nothing of the same process is in progress, and nothing earlier of it is still to be tried.

    One that failed, which its error shows, is overtaken while it waits. A job whose lease has ended waits only for
    earlier ones in progress: two jobs that waited for each other would wait for ever. One that waits to be tried may be
    earlier all the same: it got its number first, and its transaction ended after the other job was claimed.

    The other's status is never compared for equality: before its first ANALYZE, PostgreSQL read every entry of the
    status's index for each job, 1.7 s for 200 of them. Only a job in progress has an owner.

    With `singly` PostgreSQL checks that for each job until it has enough of them. By its statistics of a quiet minute
    it joined all jobs, which took ten times as long.
    """
    in_progress = _OTHER.c.owner.is_not(None)
    untried = and_(_unfinished(_OTHER), _OTHER.c.error_message.is_(None))
    waits = jobs.c.status == JobStatus.PENDING
    earlier = and_(_OTHER.c.seq < jobs.c.seq, or_(in_progress, and_(untried, waits)))
    later = and_(in_progress, waits)
    others = select(_OTHER.c.seq).where(_OTHER.c.process_id == jobs.c.process_id, or_(earlier, later))
    if singly:
        # It makes no join of a subquery with OFFSET.
        others = others.limit(literal_column("1")).offset(literal_column("0"))
    return ~exists(others)


def behind_later(due: ColumnElement[datetime]) -> ColumnElement[bool]:
    """An earlier job of the same process is to be done first, and not before `due`."""
    untried = and_(_unfinished(_OTHER), _OTHER.c.error_message.is_(None), _OTHER.c.not_before > due)
    same = _OTHER.c.process_id == jobs.c.process_id
    return exists(select(_OTHER.c.seq).where(same, _OTHER.c.seq < jobs.c.seq, untried))


def _contested() -> ColumnElement[bool]:
    """Something of its process has failed and waits: then two of that process may be next, for two workers at once."""
    its_process = _FAILED.c.process_id == jobs.c.process_id
    return exists(select(_FAILED.c.seq).where(its_process, _FAILED.c.error_message.is_not(None)))


def first_due(*conditions: ColumnElement[bool]) -> CompoundSelect[Any]:
    """The first of those that wait, and the first of those whose lease has ended.

    Two parts, because each can walk the index in order and end early; one with OR sorts all that wait.
    """
    now = bindparam("claimed_at", type_=DatabaseInstant)
    at_most = bindparam("at_most", type_=Integer)
    parts = (
        select(jobs.c.seq, jobs.c.process_id, jobs.c.priority, DEATHS.label("deaths"), _contested().label("contested"))
        .where(jobs.c.status == status, since <= now, _is_next(singly=True), *conditions)
        .order_by(jobs.c.priority.desc(), jobs.c.seq)
        .limit(at_most)
        .with_for_update(skip_locked=True)
        for status, since in (
            (JobStatus.PENDING, jobs.c.not_before),
            (JobStatus.IN_PROGRESS, jobs.c.leased_until),
        )
    )
    return union_all(*(select(part.subquery()) for part in parts))


def _claim_statement(*conditions: ColumnElement[bool]) -> ReturningUpdate[Any]:
    return (
        update(jobs)
        .where(jobs.c.seq.in_(bindparam("chosen", expanding=True)), *conditions)
        .values(
            status=JobStatus.IN_PROGRESS,
            owner=bindparam("claimed_by"),
            leased_until=bindparam("claimed_until", type_=DatabaseInstant),
            deaths=DEATHS,
            claims=jobs.c.claims + 1,
            updated_at=bindparam("claimed_at", type_=DatabaseInstant),
        )
        .returning(jobs)
    )


def _lock() -> Select[Any]:
    own = func.pg_try_advisory_xact_lock(_LOCKS, func.hashtext(jobs.c.process_id))
    return select(jobs.c.seq).where(jobs.c.seq.in_(bindparam("chosen", expanding=True)), own)


def _next_due(*conditions: ColumnElement[bool]) -> Select[Any]:
    due = case((jobs.c.status == JobStatus.IN_PROGRESS, jobs.c.leased_until), else_=jobs.c.not_before)
    unfinished = jobs.c.status.in_([JobStatus.PENDING, JobStatus.IN_PROGRESS])
    return select(type_coerce(func.min(due), DatabaseInstant)).where(unfinished, _is_next(), *conditions)


# Built once: building them takes SQLAlchemy many times as long as running them, and a burst of jobs runs them often.
ENQUEUE = jobs.insert()
_NOT_POISON = DEATHS < POISON_DEATHS
UNFINISHED = _unfinished(jobs)
FIRST_DUE = first_due()
FIRST_NOT_POISON_DUE = first_due(_NOT_POISON)
CLAIMED = and_(
    jobs.c.seq == bindparam("its_seq"),
    jobs.c.status == JobStatus.IN_PROGRESS,
    jobs.c.owner == bindparam("its_owner"),
    jobs.c.claims == bindparam("its_claims"),
)
"""The row is still under a claim.

`its_claims` distinguishes two claims of one owner, and `its_seq` what a job was from what it is when it was done again.
"""

CLAIM = _claim_statement()
CLAIM_CONTESTED = _claim_statement(_is_next())
LOCK_CONTESTED = _lock()
FINISH = delete(jobs).where(CLAIMED)
RENEW = update(jobs).where(CLAIMED)
SETTLE = RENEW.values(owner=None, leased_until=None)
NEXT_DUE = _next_due()
NEXT_NOT_POISON_DUE = _next_due(_NOT_POISON)
RELEASE_ALL = (
    update(jobs)
    .where(jobs.c.status == JobStatus.IN_PROGRESS)
    .values(status=JobStatus.PENDING, owner=None, leased_until=None, deaths=jobs.c.deaths + 1)
)


class LeaseLost(Exception):
    """The lease on this job was lost: roll back, another worker does it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when read. `seq` is its position in the order of arrival, never used twice.

    `attempt` counts the tries that failed, `deaths` the last ones in a row that ended with their worker, and `claims`
    every time that a worker took it. `holds` counts how often it was held, by the reason, where its handler named one.
    """

    seq: int
    id: str
    process_id: str
    kind: str
    request: Mapping[str, Any]
    status: JobStatus
    response: Mapping[str, Any] | None
    error_message: str | None
    attempt: int
    deaths: int
    priority: int
    not_before: datetime
    created_at: datetime
    owner: str | None
    claims: int
    holds: Mapping[str, int]
    trace: str | None
    """The W3C traceparent of what it belongs to, so that a delivery can be followed through all that it caused."""

    @property
    def poison(self) -> bool:
        """Whether its workers died again and again since it last failed or was held, if it ever was."""
        return self.deaths >= POISON_DEATHS


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to be stored: its kind, its process and its content. A higher `priority` goes first."""

    kind: str
    process_id: str
    request: Mapping[str, Any]
    priority: int = 0


_RENAMED = {"request": "request_json", "response": "response_json"}
_COLUMNS = {name: _RENAMED.get(name, name) for name in Job.__dataclass_fields__}
FIELDS = tuple(jobs.c[name] for name in _COLUMNS.values())
"""The columns that a `Job` is read from."""


def new_job(kind: str, process_id: str, request: Mapping[str, Any], now: datetime, trace: str | None) -> dict[str, Any]:
    """The row of a job that was never tried, due now."""
    return {
        "id": uuid4().hex,
        "process_id": process_id,
        "kind": kind,
        "request_json": dict(request),
        "status": JobStatus.PENDING,
        "attempt": 0,
        "deaths": 0,
        "priority": 0,
        "not_before": now,
        "created_at": now,
        "updated_at": now,
        "claims": 0,
        "trace": trace,
    }


def job_of(row: Row[Any]) -> Job:
    values = {name: row._mapping[column] for name, column in _COLUMNS.items()}
    return Job(**(values | {"status": JobStatus(row.status), "holds": row.holds or {}}))


def claimed(job: Job) -> dict[str, Any]:
    """What `CLAIMED` asks for: the claim that `job` was read from."""
    return {"its_seq": job.seq, "its_owner": job.owner, "its_claims": job.claims}


def lost(job: Job) -> LeaseLost:
    """Return the error for a lost claim."""
    return LeaseLost(f"job {job.id} ({job.kind}) is no longer held by {job.owner}")


@dataclass(frozen=True, slots=True)
class JobResult:
    """The job is done. `response` is kept if a consumer collects results."""

    response: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class Retry:
    """A transient failure, which counts as an attempt: retry after `delay` or the backoff, until all are used up."""

    error: str
    delay: timedelta | None = None
    level: int = logging.INFO
    """At which the attempt is logged."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The job cannot be done yet: again after `delay`, without an attempt; `Job.holds` counts each `why`."""

    delay: timedelta
    why: str | None = None


@dataclass(frozen=True, slots=True)
class Dead:
    """A final failure, for a person to see. `retryable` if a later retry may help."""

    error: str
    retryable: bool


Outcome = JobResult | Retry | Hold | Dead
