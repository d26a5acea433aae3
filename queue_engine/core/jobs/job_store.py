"""Store jobs so that work survives its process. Requests are opaque.

One worker claims a job for the time of a lease and renews it at every third of that time. A dead worker's job becomes
claimable when the lease ends. That counts as a death, not as a failure, and lengthens no wait. After three deaths in a
row a job is poison: a process runs one such job at a time, so that it takes no other along. After nine a process runs
it with no other job beside it, and if that ends the process, too, the job is dead.
Claims are fenced: a worker that lost its lease cannot finish the job.

Jobs with one `process_id` (events of one pull request, say) run in their order and one at a time. Only a failed job
that waits for its next try is overtaken. On PostgreSQL claims skip locked rows. Where two workers might see different
jobs of one `process_id` as next, the claim locks that process and reads again.

A finished job is deleted, in one transaction with its consumer's work where one collects results
(`Jobs.take_results`). A job that failed for good moves to the dead letters in one transaction. So the table stays as
small as the work; `make bench` sends a million jobs through and compares with a well-kept peer.
"""

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    ColumnElement,
    CompoundSelect,
    Integer,
    Row,
    Select,
    bindparam,
    delete,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant
from queue_engine.core.jobs.job import (
    CLAIM,
    CLAIM_CONTESTED,
    ENQUEUE,
    FIELDS,
    FINISH,
    FIRST_DUE,
    FIRST_NOT_POISON_DUE,
    LOCK_CONTESTED,
    NEXT_DUE,
    NEXT_NOT_POISON_DUE,
    POISON_DEATHS,
    RELEASE_ALL,
    RENEW,
    SETTLE,
    UNFINISHED,
    Job,
    JobRequest,
    JobStatus,
    behind_later,
    claimed,
    job_of,
    jobs,
    lost,
    new_job,
)
from queue_engine.core.observability.log import logged
from queue_engine.core.observability.trace import current

_ESCAPE = "/"
_ITS_PROCESS = jobs.c.process_id == bindparam("its_process")
_DUE: ColumnElement[datetime] = bindparam("due", type_=DatabaseInstant)

_UNFINISHED = select(*FIELDS).where(_ITS_PROCESS, UNFINISHED).order_by(jobs.c.seq)
_HASTEN = (
    update(jobs)
    .where(_ITS_PROCESS, jobs.c.status == JobStatus.PENDING, jobs.c.error_message.is_(None), jobs.c.not_before > _DUE)
    .values(not_before=_DUE, updated_at=bindparam("now"))
)
_THESE = select(*FIELDS).where(jobs.c.id.in_(bindparam("ids", expanding=True)), UNFINISHED)
_AWAIT = update(jobs).where(jobs.c.seq == bindparam("its_seq"), UNFINISHED)
_NEWEST = select(func.max(jobs.c.seq))


def _of_processes(name: str) -> ColumnElement[bool]:
    """Those whose process has the prefix that is the parameter of this name, as `_escaped` writes it."""
    return jobs.c.process_id.startswith(bindparam(name), escape=_ESCAPE)


def _escaped(prefix: str) -> str:
    return re.sub(f"[{_ESCAPE}%_]", rf"{_ESCAPE}\g<0>", prefix)


_REQUESTS = (
    select(jobs.c.request_json)
    .where(jobs.c.kind == bindparam("its_kind"), _of_processes("prefix"), UNFINISHED)
    .order_by(jobs.c.seq)
)


@cache
def _naming(name: str) -> Select[Any]:
    """The unfinished jobs of one kind whose requests have a value under this name."""
    named = jobs.c.request_json[name].as_string().is_not(None)
    its_kind = jobs.c.kind == bindparam("its_kind")
    return select(*FIELDS).where(its_kind, _of_processes("prefix"), UNFINISHED, named).order_by(jobs.c.seq)


@cache
def _unanswered(kinds: tuple[str, ...], names: tuple[str, ...]) -> Select[Any]:
    """The first unfinished jobs of these kinds whose requests have, under these names, a value of its list or none."""
    values = [(name, jobs.c.request_json[name].as_string()) for name in names]
    return (
        select(*FIELDS)
        .where(
            jobs.c.seq > bindparam("after"),
            jobs.c.seq < bindparam("before"),
            or_(*[(jobs.c.kind == kind) & _of_processes(f"prefix_{kind}") for kind in kinds]),
            UNFINISHED,
            jobs.c.not_before <= _DUE,
            *[value.in_(bindparam(f"values_{name}", expanding=True)) | value.is_(None) for name, value in values],
            ~behind_later(_DUE),
        )
        .order_by(jobs.c.seq)
        .limit(bindparam("most", type_=Integer))
    )


@logged("jobs")
class Jobs:
    """Jobs, read and written in the transaction of one connection."""

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
        once: bool = False,
    ) -> str:
        """Store a job, due at `not_before` or now; higher `priority` goes first. Returns its id.

        With `once` not if the same one waits already and will be done before this one could be. That is only for jobs
        that read what they need when they run. One in progress does not count: it may have read before.
        """
        for job in await self.unfinished(process_id) if once else ():
            waits = job.status is JobStatus.PENDING and job.error_message is None
            if waits and job.kind == kind and job.request == request:
                return job.id
        values = new_job(kind, process_id, request, now, current()) | {
            "not_before": not_before or now,
            "priority": priority,
        }
        await self._connection.execute(ENQUEUE, values)
        self._due()
        return str(values["id"])

    async def enqueue_request(self, wanted: JobRequest, now: datetime) -> str:
        """Store a job that another part described, due now. Returns its id."""
        return await self.enqueue(
            kind=wanted.kind,
            request=wanted.request,
            process_id=wanted.process_id,
            now=now,
            priority=wanted.priority,
        )

    async def enqueue_all(
        self,
        *,
        kind: str,
        requests: Sequence[tuple[str, Mapping[str, Any]]],
        now: datetime,
        traces: Sequence[str | None] | None = None,
    ) -> Sequence[str]:
        """Store many jobs of one kind at once, due now, in this order: each a process id and its request.

        They belong to the work under way, unless `traces` has the trace of each. Returns their ids.
        """
        if not requests:
            return ()
        belonging = [current()] * len(requests) if traces is None else traces
        values = [
            new_job(kind, process, request, now, trace)
            for (process, request), trace in zip(requests, belonging, strict=True)
        ]
        await self._connection.execute(ENQUEUE, values)
        self._due()
        return [str(each["id"]) for each in values]

    async def claim_some(
        self, limit: int, *, owner: str, now: datetime, lease: timedelta, poison: bool = True
    ) -> tuple[Job, ...]:
        """Take up to `limit` due jobs, each of another process, until `now + lease`.

        The highest priority comes first, then the oldest. A job in progress whose lease has ended is taken like a
        pending one, with one death more. Jobs of one process are done in their order and one at a time, by any
        worker; only one that failed, and waits to be tried again, is overtaken.

        Of the jobs whose workers died again and again it takes one at most, and none unless `poison`: what one of
        them does to its worker must not be done to the others.
        """
        if not poison:
            return await claim_due(self._connection, FIRST_NOT_POISON_DUE, limit, owner, now, lease)
        claimed = await claim_due(self._connection, FIRST_DUE, limit, owner, now, lease)
        if len(claimed) < limit and any(job.poison for job in claimed):
            # Others of them may have stood before the rest.
            claimed += await claim_due(self._connection, FIRST_NOT_POISON_DUE, limit - len(claimed), owner, now, lease)
        return claimed

    async def renew(self, job: Job, until: datetime) -> bool:
        """Prolong the lease of a claim. Returns False when the claim was lost."""
        return await self._changes(RENEW, {**claimed(job), "leased_until": until})

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
        """Delete jobs that are done and have no results to collect.

        One whose lease was lost is left to its present worker.
        """
        if done:
            await self._connection.execute(FINISH, [claimed(job) for job in done])

    async def retry(self, job: Job, *, at: datetime, error: str, now: datetime) -> None:
        """The job failed and is due again at `at`: counts an attempt. Raises LeaseLost."""
        await self._settle(
            job,
            status=JobStatus.PENDING,
            attempt=job.attempt + 1,
            deaths=0,
            not_before=at,
            error_message=error,
            updated_at=now,
        )

    async def hold(self, job: Job, *, at: datetime, now: datetime, why: str | None = None) -> None:
        """The job cannot be done yet, through no fault of its own or its worker's: due again. Raises LeaseLost."""
        counted = {} if why is None else {"holds": {**job.holds, why: job.holds.get(why, 0) + 1}}
        await self._settle(job, status=JobStatus.PENDING, deaths=0, not_before=at, updated_at=now, **counted)

    async def give_back(self, job: Job, now: datetime) -> None:
        """Let a job that was not begun wait again, with its deaths. Raises LeaseLost."""
        await self._settle(job, status=JobStatus.PENDING, updated_at=now)

    async def fail(self, job: Job, error: str, now: datetime) -> None:
        """The job failed for good, which a consumer of its process learns by `take_results`. Raises LeaseLost."""
        await self._settle(
            job,
            status=JobStatus.FAILED,
            attempt=job.attempt + 1,
            response_json=None,
            error_message=error,
            updated_at=now,
        )

    async def remove(self, job: Job) -> None:
        """Remove a claimed job from the store, for a caller that keeps it elsewhere. Raises LeaseLost."""
        if not await self._changes(FINISH, claimed(job)):
            raise lost(job)

    async def get_results(self, process_id: str) -> tuple[Job, ...]:
        """Return the finished jobs of a process, completed and failed, in the order in which they were enqueued."""
        finished = jobs.c.status.in_([JobStatus.COMPLETED, JobStatus.FAILED])
        rows = await self._connection.execute(
            select(*FIELDS).where(jobs.c.process_id == process_id, finished).order_by(jobs.c.seq)
        )
        return tuple(map(job_of, rows))

    async def unfinished(self, process_id: str) -> tuple[Job, ...]:
        """The jobs of a process that are pending or in progress, in the order in which they were enqueued."""
        return tuple(map(job_of, await self._connection.execute(_UNFINISHED, {"its_process": process_id})))

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
        """Make every job in progress pending, at the start of the only process on this database. Returns how many."""
        return (await self._connection.execute(RELEASE_ALL, {"updated_at": now})).rowcount

    async def next_due(self, *, poison: bool = True) -> datetime | None:
        """When the next job can be claimed: an instant that may be past; None if nothing waits. See `claim_some`."""
        statement = NEXT_DUE if poison else NEXT_NOT_POISON_DUE
        found: datetime | None = (await self._connection.execute(statement)).scalar_one()
        return found

    async def hasten(self, process_id: str, now: datetime, *, due: datetime | None = None) -> None:
        """Make the untried jobs of a process due now, or at `due`, that were to wait longer."""
        its_own = {"its_process": process_id, "now": now, "due": due or now}
        if (await self._connection.execute(_HASTEN, its_own)).rowcount:
            self._due()

    async def await_these(self, ids: Collection[str], now: datetime, why: str) -> None:
        """Make jobs due now for which something waits; count that as a hold for `why`, and their next try as none."""
        for job in map(job_of, await self._connection.execute(_THESE, {"ids": [*ids]})):
            counted = {"holds": {**job.holds, why: job.holds.get(why, 0) + 1}, "attempt": max(job.attempt - 1, 0)}
            due = {"its_seq": job.seq, "not_before": min(job.not_before, now), "updated_at": now}
            await self._connection.execute(_AWAIT, due | counted)
        self._due()

    async def unfinished_naming(self, name: str, kind: str, processes: str) -> tuple[Job, ...]:
        """Return the unfinished jobs of one kind, of processes with this prefix, whose requests have a value there."""
        these = {"its_kind": kind, "prefix": _escaped(processes)}
        return tuple(map(job_of, await self._connection.execute(_naming(name), these)))

    async def unfinished_requests(self, kind: str, processes: str) -> tuple[Mapping[str, Any], ...]:
        """Return the requests of the unfinished jobs of one kind, of all processes with this prefix."""
        these = {"its_kind": kind, "prefix": _escaped(processes)}
        return tuple((await self._connection.scalars(_REQUESTS, these)).all())

    async def newest(self) -> int:
        """Return the number of the last stored job that is there; 0 if there is none."""
        return (await self._connection.execute(_NEWEST)).scalar_one() or 0

    async def unanswered_before(
        self,
        seq: int,
        processes: Mapping[str, str],
        fields: Mapping[str, Collection[str]],
        *,
        due: datetime,
        after: int,
        most: int,
    ) -> tuple[Job, ...]:
        """Return the first unfinished jobs of the numbers between `after` and `seq` that may be done by `due`.

        Only those of the kinds in `processes`, of the processes with the prefix of their kind, whose requests have one
        of these values in `fields`, or lack the field. A job behind one of its process that is due later is not among
        them.
        """
        given: dict[str, Any] = {"after": after, "before": seq, "due": due, "most": most}
        given |= {f"prefix_{kind}": _escaped(prefix) for kind, prefix in processes.items()}
        given |= {f"values_{name}": [*values] for name, values in fields.items()}
        statement = _unanswered(tuple(processes), tuple(fields))
        return tuple(map(job_of, await self._connection.execute(statement, given)))

    async def _settle(self, job: Job, **values: object) -> None:
        if not await self._changes(SETTLE, {**claimed(job), **values}):
            raise lost(job)

    async def _changes(self, statement: Any, values: Mapping[str, Any]) -> bool:
        return (await self._connection.execute(statement, values)).rowcount == 1


async def claim_due(
    connection: AsyncConnection,
    due: CompoundSelect[Any],
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
    taken = await _claim_chosen(connection, chosen, by)
    return tuple(job_of(taken[row.seq]) for row in chosen if row.seq in taken)


async def _first_due(
    connection: AsyncConnection, due: CompoundSelect[Any], limit: int, now: datetime
) -> Sequence[Row[Any]]:
    due_jobs = await connection.execute(due, {"claimed_at": now, "at_most": limit})
    found = sorted(due_jobs, key=lambda row: (-row.priority, row.seq))
    # Of two of one process, of which one was overtaken and is due again, only the first.
    first: dict[str, Row[Any]] = {}
    for row in found:
        if len(first) < limit:
            first.setdefault(row.process_id, row)
    return tuple(first.values())


async def _claim_chosen(
    connection: AsyncConnection, chosen: Iterable[Row[Any]], by: Mapping[str, Any]
) -> dict[int, Row[Any]]:
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
