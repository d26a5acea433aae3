"""The job store: work that survives the process. It knows what a request is for as little as a letter box does.

A job is claimed by one worker for the time of a lease. Whoever dies holding one leaves it claimable when the lease
ends, and that counts as an attempt: a job that kills whoever does it is given up like any other that fails.
Claims are fenced: a worker that lost its lease cannot finish the job of the one that has it now.
What is done with is deleted for good, so that the table stays as small as the work; what failed for good moves to
the dead letters.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Row, Select, and_, delete, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.job_table import (
    FINISH,
    FIRST_DUE,
    LOCK_CONTESTED,
    NEXT_DUE,
    TAKE,
    TAKE_CONTESTED,
    JobStatus,
    first_due,
    jobs,
)
from queue_engine.core.logged import logged
from queue_engine.core.trace import current

__all__ = ["Job", "JobStatus", "Jobs", "LeaseLost", "jobs", "new_job"]


class LeaseLost(Exception):
    """The lease on this job ended and it is no longer ours: roll back, somebody else does it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when read.

    `attempt` counts the tries that failed or ended with their worker, `claims` every time that a worker took it.
    """

    id: str
    process_id: str
    kind: str
    request: Mapping[str, Any]
    status: JobStatus
    batch_job_id: str | None
    response: Mapping[str, Any] | None
    error_message: str | None
    attempt: int
    priority: int
    not_before: datetime
    created_at: datetime
    updated_at: datetime
    owner: str | None
    claims: int
    trace: str | None
    """The W3C traceparent of what it belongs to, so that a delivery can be followed through all that it caused."""


_RENAMED = {"request": "request_json", "response": "response_json"}
_COLUMNS = {name: _RENAMED.get(name, name) for name in Job.__dataclass_fields__}
_FIELDS = tuple(jobs.c[name] for name in _COLUMNS.values())


@logged("jobs")
class Jobs:
    """The jobs, on one connection; what is done here is part of that connection's transaction."""

    def __init__(self, connection: AsyncConnection, due: Callable[[], None] = lambda: None) -> None:
        """`due` is called for everything that is enqueued."""
        self._connection = connection
        self._due = due

    async def enqueue(
        self,
        *,
        kind: str,
        request: Mapping[str, Any],
        process_id: str,
        now: datetime,
        not_before: datetime | None = None,
        priority: int = 0,
    ) -> str:
        """Store a job, due at `not_before` or now; higher `priority` goes first. Returns its id."""
        # Values beside the statement, not in it: a burst of deliveries comes through here, and this compiles once.
        values = new_job(kind, process_id, request, now, current()) | {
            "not_before": not_before or now,
            "priority": priority,
        }
        await self._connection.execute(jobs.insert(), values)
        self._due()
        return str(values["id"])

    async def enqueue_all(
        self,
        *,
        kind: str,
        requests: Sequence[tuple[str, Mapping[str, Any]]],
        now: datetime,
        traces: Sequence[str | None] | None = None,
    ) -> None:
        """Store many jobs of one kind at once, due now, in this order: each a process id and its request.

        They belong to the work under way, unless `traces` tells for each what it belongs to.
        """
        if not requests:
            return
        belonging = [current()] * len(requests) if traces is None else traces
        values = [
            new_job(kind, process, request, now, trace)
            for (process, request), trace in zip(requests, belonging, strict=True)
        ]
        await self._connection.execute(jobs.insert(), values)
        self._due()

    async def claim(
        self, *, owner: str, now: datetime, lease: timedelta, kinds: Collection[str] | None = None
    ) -> Job | None:
        """Take the due job of the highest priority that is oldest, until `now + lease`; None if there is none.

        A job in progress whose lease has ended is taken like a pending one, with one attempt more. Jobs of one
        process are done in their order and one at a time, whoever does them; only one that failed, and waits to be
        tried again, is overtaken.
        """
        statement = FIRST_DUE if kinds is None else first_due(jobs.c.kind.in_(kinds))
        return next(iter(await self._claim(statement, 1, owner, now, lease)), None)

    async def claim_some(self, limit: int, *, owner: str, now: datetime, lease: timedelta) -> tuple[Job, ...]:
        """Take as `claim` does, up to `limit` jobs in the order in which it would; each of another process."""
        return await self._claim(FIRST_DUE, limit, owner, now, lease)

    async def renew(self, job_id: str, owner: str, until: datetime) -> bool:
        """Prolong a lease. False when it is no longer this owner's."""
        held = and_(jobs.c.id == job_id, jobs.c.owner == owner, jobs.c.status == JobStatus.IN_PROGRESS)
        return await self._changes(update(jobs).where(held).values(leased_until=until))

    async def complete(self, job: Job, response: Mapping[str, Any] | None, now: datetime) -> None:
        """The job is done; its result waits for `take_results`. Raises LeaseLost."""
        await self._settle(
            job,
            status=JobStatus.COMPLETED,
            response_json=None if response is None else dict(response),
            error_message=None,
            updated_at=now,
        )

    async def finish(self, done: Sequence[Job]) -> None:
        """These jobs are done and nobody waits for their results: they are deleted for good.

        One whose lease was lost is left to whoever has it now.
        """
        if done:
            claims = [{"its_id": job.id, "its_owner": job.owner, "its_claims": job.claims} for job in done]
            await self._connection.execute(FINISH, claims)

    async def retry(self, job: Job, *, at: datetime, error: str, now: datetime) -> None:
        """The job failed and is due again at `at`: counts an attempt. Raises LeaseLost."""
        await self._settle(
            job,
            status=JobStatus.PENDING,
            attempt=job.attempt + 1,
            not_before=at,
            error_message=error,
            updated_at=now,
        )

    async def hold(self, job: Job, *, at: datetime, now: datetime) -> None:
        """The job cannot be done yet, through no fault of its own: due again at `at`. Raises LeaseLost."""
        await self._settle(job, status=JobStatus.PENDING, not_before=at, updated_at=now)

    async def fail(self, job: Job, error: str, now: datetime) -> None:
        """The job failed for good, which whoever waits for its process learns by `take_results`. Raises LeaseLost."""
        await self._settle(job, status=JobStatus.FAILED, attempt=job.attempt + 1, error_message=error, updated_at=now)

    async def remove(self, job: Job) -> None:
        """Take a claimed job out of the store, for whoever keeps it elsewhere. Raises LeaseLost."""
        if not await self._changes(delete(jobs).where(_claimed(job))):
            raise _lost(job)

    async def get_results(self, process_id: str) -> tuple[Job, ...]:
        """The finished jobs of a process, completed and failed, in the order in which they were enqueued."""
        finished = jobs.c.status.in_([JobStatus.COMPLETED, JobStatus.FAILED])
        rows = await self._connection.execute(
            select(*_FIELDS).where(jobs.c.process_id == process_id, finished).order_by(jobs.c.seq)
        )
        return tuple(map(_job, rows))

    async def take_results(self, process_id: str) -> tuple[Job, ...]:
        """As `get_results`, and delete them for good: in the transaction in which the consumer stores them."""
        results = await self.get_results(process_id)
        await self.delete([job.id for job in results])
        return results

    async def delete(self, ids: Collection[str]) -> int:
        """Delete jobs for good, in whatever status, once their results are safe elsewhere. Returns how many."""
        if not ids:
            return 0
        return (await self._connection.execute(delete(jobs).where(jobs.c.id.in_(ids)))).rowcount

    async def release_all(self, now: datetime) -> int:
        """Make every job in progress pending again: for the start of the only process on this database.

        With several processes leases do this; called then, it would have jobs done twice. Returns how many.
        """
        released = await self._connection.execute(
            update(jobs)
            .where(jobs.c.status == JobStatus.IN_PROGRESS)
            .values(status=JobStatus.PENDING, owner=None, leased_until=None, attempt=jobs.c.attempt + 1, updated_at=now)
        )
        return released.rowcount

    async def next_due(self) -> datetime | None:
        """When the next job can be claimed: an instant that may be past; None if nothing waits."""
        found: datetime | None = (await self._connection.execute(NEXT_DUE)).scalar_one()
        return found

    async def depth(self) -> int:
        """How many jobs are pending or in progress."""
        unfinished = jobs.c.status.in_([JobStatus.PENDING, JobStatus.IN_PROGRESS])
        return (await self._connection.execute(select(func.count()).select_from(jobs).where(unfinished))).scalar_one()

    async def _settle(self, job: Job, **values: object) -> None:
        if not await self._changes(update(jobs).where(_claimed(job)).values(owner=None, leased_until=None, **values)):
            raise _lost(job)

    async def _claim(
        self, due: tuple[Select[Any], ...], limit: int, owner: str, now: datetime, lease: timedelta
    ) -> tuple[Job, ...]:
        found: list[Row[Any]] = []
        for each in due:
            found += await self._connection.execute(each, {"claimed_at": now, "at_most": limit})
        found.sort(key=lambda row: (-row.priority, row.seq))
        # Of two of one process, of which one was overtaken and is due again, only the first.
        first: dict[str, Row[Any]] = {}
        for row in found:
            if len(first) < limit:
                first.setdefault(row.process_id, row)
        by = {"claimed_at": now, "claimed_by": owner, "claimed_until": now + lease}
        taken = await self._take(first.values(), by)
        return tuple(_job(taken[row.seq]) for row in first.values() if row.seq in taken)

    async def _take(self, chosen: Iterable[Row[Any]], by: Mapping[str, Any]) -> dict[int, Row[Any]]:
        """Claim these, by their numbers; on PostgreSQL not those of a process that another worker has just taken from.

        Two workers may at once see two jobs of one process as next, of which one failed before; neither sees what the
        other is about to do. Such a process is locked until the commit, and then looked at again.
        """
        at_once: list[int] = []
        contested: list[int] = []
        for row in chosen:
            (contested if row.contested and self._shared else at_once).append(row.seq)
        taken: dict[int, Row[Any]] = {}
        if contested:
            locked = list(await self._connection.scalars(LOCK_CONTESTED, {"chosen": contested}))
            if locked:
                rows = await self._connection.execute(TAKE_CONTESTED, {**by, "chosen": locked})
                taken |= {row.seq: row for row in rows}
        if at_once:
            taken |= {row.seq: row for row in await self._connection.execute(TAKE, {**by, "chosen": at_once})}
        return taken

    @property
    def _shared(self) -> bool:
        """Whether several workers claim at the same time; SQLite's one writer goes one after another."""
        return self._connection.dialect.name == "postgresql"

    async def _changes(self, statement: Any) -> bool:
        return (await self._connection.execute(statement)).rowcount == 1


def new_job(kind: str, process_id: str, request: Mapping[str, Any], now: datetime, trace: str | None) -> dict[str, Any]:
    """The row of a job that was never tried, due now."""
    return {
        "id": uuid4().hex,
        "process_id": process_id,
        "kind": kind,
        "request_json": dict(request),
        "status": JobStatus.PENDING,
        "attempt": 0,
        "priority": 0,
        "not_before": now,
        "created_at": now,
        "updated_at": now,
        "claims": 0,
        "trace": trace,
    }


def _lost(job: Job) -> LeaseLost:
    return LeaseLost(f"job {job.id} ({job.kind}) is no longer held by {job.owner}")


def _claimed(job: Job) -> ColumnElement[bool]:
    """The row is still under the claim that `job` was read from; `claims` tells two claims of one owner apart."""
    return and_(
        jobs.c.id == job.id,
        jobs.c.status == JobStatus.IN_PROGRESS,
        jobs.c.owner == job.owner,
        jobs.c.claims == job.claims,
    )


def _job(row: Row[Any]) -> Job:
    values = {name: row._mapping[column] for name, column in _COLUMNS.items()}
    return Job(**(values | {"status": JobStatus(row.status)}))
