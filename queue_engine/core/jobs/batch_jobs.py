"""Run the jobs of one process one after the other or as one batch, and report their progress.

It knows nothing of what a job is about. Each job goes through the worker like any other. In a batch the first one
drives: it submits all of its process, then looks at the batch from time to time, its waits being holds in the
database, and finally settles every other job and then itself. What it knows of the batch is stored with the jobs, so
that the next worker after a death asks about the same batch. A process is enqueued whole, in one transaction: jobs
added to it later are not part of its batch.

The results stay with the jobs, until the consumer takes them with `Jobs.take_results`.

A provider finds a batch by the first job's id if it was submitted before. `BatchRejection` falls back to `sync`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from cachetools import LRUCache
from sqlalchemy import bindparam, func, select, update

from queue_engine.core.database.database import Database, DatabaseInstant
from queue_engine.core.jobs.batch import (
    BatchError,
    BatchKind,
    BatchPort,
    BatchRejection,
    BatchResult,
    BatchState,
    BatchStatus,
    Result,
)
from queue_engine.core.jobs.job_store import Job, Jobs, LeaseLost
from queue_engine.core.jobs.job_table import JobStatus, jobs
from queue_engine.core.jobs.outcomes import Dead, Hold, JobResult, Outcome
from queue_engine.core.jobs.worker import Handler, ResultHandler
from queue_engine.core.observability.log import logged
from queue_engine.core.observability.progress import NullNotifier, ProgressEvent, ProgressNotifier, ProgressStatus
from queue_engine.core.timing.backoff import MONITOR, REDELIVERY, Backoff, wait
from queue_engine.core.timing.clock import Clock
from queue_engine.core.timing.monitor_entry import MonitorEntry

_log = structlog.get_logger("imq.batch_jobs")

_REDELIVERIES = 5
"""Errors in a row after those that the monitor bears: about an hour of them, then the batch is given up."""

_REMEMBERED = 1000
"""Processes that are known to be done one by one; who is forgotten costs one more question."""


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """The provider of batches, and how to poll it. Raises ValueError for a `polling` without bound."""

    provider: BatchPort
    strategy: Callable[[Job], BatchKind] = lambda job: BatchKind.BATCH
    polling: Backoff = MONITOR
    is_retryable: Callable[[Exception], bool] = lambda error: True
    """Whether a retry may help after this error of the provider."""
    asked_delay: Callable[[Exception], timedelta | None] = lambda error: None
    """How long the provider asks to wait by this answer, which is then no error."""

    def __post_init__(self) -> None:
        if self.polling.tries is None:
            raise ValueError("a batch cannot be looked at for ever: give its monitor a number of tries")


@logged("bulk")
class BatchJobs:
    """Carries the jobs of one kind, process by process. Give `collected()` to the worker as their handler."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        alone: Handler,
        *,
        random: Callable[[], float],
        batches: BatchSettings | None = None,
        progress: ProgressNotifier | None = None,
    ) -> None:
        """`alone` does one job by itself. Without `batches` all are done so. `progress` must not raise."""
        self._database = database
        self._clock = clock
        self._alone = alone
        self._random = random
        self._batches = batches
        self._progress = progress or NullNotifier()
        self._one_by_one: LRUCache[str, bool] = LRUCache(_REMEMBERED)

    def collected(self) -> ResultHandler:
        """Return the handler of its jobs, which collects results and reports each finished job."""
        return ResultHandler(self.do, settled=self.report)

    async def do(self, job: Job) -> Outcome | None:
        """Do one job, or drive the batch that it is part of."""
        batches = self._batches
        if batches is None:
            return await self._alone(job)
        begun = job.batch_job_id is not None
        if not begun and (job.process_id in self._one_by_one or batches.strategy(job) is BatchKind.SYNC):
            return await self._alone(job)
        try:
            if job.batch_job_id is not None:
                return await self._poll(batches, job, job.batch_job_id)
            together = await self._unfinished(job.process_id)
            batch = await batches.provider.submit(job.process_id, together)
        except BatchRejection as unsupported:
            self._one_by_one[job.process_id] = True
            _log.info("batch_unsupported", process=job.process_id, kind=job.kind, reason=str(unsupported))
            return await self._alone(job)
        except LeaseLost:
            raise
        except Exception as error:
            return await self._failed(batches, job, error)
        return await self._submitted(batches, job, together, batch)

    async def cancel(self, process_id: str) -> None:
        """Cancel the batch of a process, and delete its jobs for good."""
        batches = {job.batch_job_id for job in await self._unfinished(process_id) if job.batch_job_id is not None}
        for batch in batches:
            if self._batches is not None:
                await self._batches.provider.cancel(batch)
        async with self._database.transaction() as connection:
            ids = await connection.scalars(select(jobs.c.id).where(jobs.c.process_id == process_id))
            await Jobs(connection).delete(ids.all())

    async def report(self, job: Job) -> None:
        """Report the number of finished jobs of a process."""
        async with self._database.reading() as connection:
            counted = await connection.execute(
                select(jobs.c.status, func.count()).where(jobs.c.process_id == job.process_id).group_by(jobs.c.status)
            )
            counts: dict[str, int] = dict(map(tuple, counted))
        failed = counts.get(JobStatus.FAILED, 0)
        done, total = failed + counts.get(JobStatus.COMPLETED, 0), sum(counts.values())
        if not total:
            # Taken already, by a consumer who needed no telling.
            return
        if done < total:
            status = ProgressStatus.IN_PROGRESS
        else:
            status = ProgressStatus.FAILED if failed else ProgressStatus.COMPLETED
        words = f"{done} of {total} jobs are done" + (f", {failed} of them failed" if failed else "")
        await self._progress.on_progress(ProgressEvent(job.process_id, status, words, done, total))

    async def _submitted(self, batches: BatchSettings, job: Job, together: Sequence[Job], batch: str) -> Outcome:
        now = self._clock.now()
        entry = MonitorEntry.started(now).answered(batches.polling, now, self._random)
        try:
            await self._store_state(job, entry, together, batch)
        except LeaseLost:
            if not await self._unfinished(job.process_id):
                # Cancelled while it was being submitted, when nobody knew of a batch yet.
                await batches.provider.cancel(batch)
            raise
        _log.info("batch_submitted", process=job.process_id, batch=batch, jobs=len(together))
        return self._hold(entry)

    async def _poll(self, batches: BatchSettings, job: Job, batch: str) -> Outcome:
        status = await batches.provider.status(batch)
        match status.state:
            case BatchState.RUNNING:
                entry = _stored(job).answered(batches.polling, self._clock.now(), self._random)
                await self._store_state(job, entry, [job], batch)
                await self._progress.on_progress(_event(job.process_id, status))
                return self._hold(entry)
            case BatchState.ENDED:
                return await self._settle(job, await batches.provider.results(batch))
            case BatchState.FAILED:
                return await self._give_up(job, status.message or "the batch failed as a whole")

    async def _failed(self, batches: BatchSettings, job: Job, error: Exception) -> Outcome:
        """A question failed: first the monitor's waits, after a few errors in a row a redelivery's, then no more."""
        if (delay := batches.asked_delay(error)) is not None:
            return Hold(delay)
        words = f"{type(error).__name__}: {error}"
        _log.warning("batch_question_failed", process=job.process_id, batch=job.batch_job_id, exc_info=error)
        after = self._after_error(batches.polling, _stored(job)) if batches.is_retryable(error) else None
        if after is not None:
            await self._store_state(job, after, [job], job.batch_job_id)
            return self._hold(after)
        if job.batch_job_id is not None:
            try:
                await batches.provider.cancel(job.batch_job_id)
            except Exception:
                _log.exception("batch_not_cancelled", process=job.process_id, batch=job.batch_job_id)
        return await self._give_up(job, words)

    def _after_error(self, polling: Backoff, entry: MonitorEntry) -> MonitorEntry | None:
        now = self._clock.now()
        if (after := entry.failed(polling, now, self._random)) is not None:
            return after
        assert polling.tries is not None
        redeliveries = entry.errors + 1 - polling.tries
        if redeliveries >= _REDELIVERIES:
            return None
        return MonitorEntry(now + wait(REDELIVERY, redeliveries, random=self._random), errors=entry.errors + 1)

    async def _give_up(self, job: Job, error: str) -> Outcome:
        return await self._settle(job, {each.id: BatchError(error) for each in await self._unfinished(job.process_id)})

    async def _settle(self, job: Job, results: Mapping[str, Result]) -> Outcome:
        """Store the results of all other jobs, then return this job's own, which keeps the batch until then."""
        missing = BatchError("the batch ended without a result for this job")
        now = self._clock.now()
        async with self._database.transaction() as connection:
            store = Jobs(connection)
            await store.assert_lease(job)
            others = [each for each in await store.unfinished(job.process_id) if each.id != job.id]
            if others:
                rows = [_row(each, results.get(each.id, missing), now) for each in others]
                await connection.execute(_SETTLE, rows)
        match results.get(job.id, missing):
            case BatchResult(response):
                return JobResult(response)
            case BatchError(error):
                return Dead(error, retryable=False)

    async def _unfinished(self, process_id: str) -> tuple[Job, ...]:
        async with self._database.reading() as connection:
            return await Jobs(connection).unfinished(process_id)

    async def _store_state(self, job: Job, entry: MonitorEntry, together: Sequence[Job], batch: str | None) -> None:
        """Store with these jobs their batch, and the state of its monitor. Raises LeaseLost."""
        known = {"batch_job_id": batch, "response_json": {"looks": entry.polls, "errors": entry.errors}}
        async with self._database.transaction() as connection:
            await Jobs(connection).assert_lease(job)
            its_own = jobs.c.id.in_([each.id for each in together])
            await connection.execute(update(jobs).where(its_own).values(**known))

    def _hold(self, entry: MonitorEntry) -> Hold:
        return Hold(max(entry.next_at - self._clock.now(), timedelta(0)))


_SETTLE = (
    update(jobs)
    .where(jobs.c.id == bindparam("its_id"))
    .values(
        status=bindparam("its_status"),
        response_json=bindparam("its_response", type_=jobs.c.response_json.type),
        error_message=bindparam("its_error"),
        updated_at=bindparam("its_time", type_=DatabaseInstant),
        owner=None,
        leased_until=None,
    )
)


def _row(job: Job, result: Result, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"its_id": job.id, "its_time": now, "its_response": None, "its_error": None}
    match result:
        case BatchResult(response):
            return row | {
                "its_status": JobStatus.COMPLETED,
                "its_response": None if response is None else dict(response),
            }
        case BatchError(error):
            return row | {"its_status": JobStatus.FAILED, "its_error": error}


def _stored(job: Job) -> MonitorEntry:
    """Return the state of the monitor of its batch, which is stored as the job's response until it is done."""
    known = job.response or {}
    return MonitorEntry(job.not_before, known.get("looks", 0), known.get("errors", 0))


def _event(process_id: str, status: BatchStatus) -> ProgressEvent:
    words = status.message or f"{status.done} of {status.total} jobs are done"
    return ProgressEvent(process_id, ProgressStatus.IN_PROGRESS, words, status.done, status.total)
