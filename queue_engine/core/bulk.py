"""The jobs of one process, done one after the other or as one batch, and how far they are told while that lasts.

It knows nothing of what a job is about. Each job goes through the worker like any other. In a batch the first one
drives: it submits all of its process, then looks at the batch from time to time, its waits being holds in the
database, and finally settles every other job and then itself. What it knows of the batch is stored with the jobs, so
that whoever takes over after a death asks about the same batch. A process is enqueued whole, in one transaction: jobs
added to it later are not part of its batch.

The results stay with the jobs, until the consumer takes them with `Jobs.take_results`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

import structlog
from cachetools import LRUCache
from sqlalchemy import bindparam, func, select, update

from queue_engine.core.backoff import MONITOR, REDELIVERY, Backoff, wait
from queue_engine.core.batch import (
    BatchProvider,
    BatchState,
    BatchStatus,
    BatchUnsupported,
    Failed,
    Result,
    Strategy,
    Succeeded,
)
from queue_engine.core.clock import Clock
from queue_engine.core.database import Database, UtcDateTime
from queue_engine.core.job_table import JobStatus, jobs
from queue_engine.core.jobs import Job, Jobs, LeaseLost
from queue_engine.core.logged import logged
from queue_engine.core.monitor import MonitorEntry
from queue_engine.core.outcomes import Dead, Done, Hold, Outcome
from queue_engine.core.progress import ProgressEvent, ProgressNotifier, ProgressStatus, Unheard
from queue_engine.core.worker import Collected, Handler

_log = structlog.get_logger("imq.bulk")

_REDELIVERIES = 5
"""Errors in a row after those that the monitor bears: about an hour of them, then the batch is given up."""

_REMEMBERED = 1000
"""Processes that are known to be done one by one; who is forgotten costs one more question."""


@logged("bulk")
class Bulk:
    """Carries the jobs of one kind, process by process. Give `collected()` to the worker as their handler."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        alone: Handler,
        *,
        random: Callable[[], float],
        provider: BatchProvider | None = None,
        strategy: Callable[[Job], Strategy] = lambda job: Strategy.BATCH,
        progress: ProgressNotifier | None = None,
        polling: Backoff = MONITOR,
        passing: Callable[[Exception], bool] = lambda error: True,
        asked: Callable[[Exception], timedelta | None] = lambda error: None,
    ) -> None:
        """`alone` does one job by itself. Without a `provider` all are done so.

        `passing` tells of what the provider raised whether asking again may help; `asked` how long it asks to be left
        alone, which is no error. `progress` must not raise. Raises ValueError for a `polling` without bound.
        """
        if polling.tries is None:
            raise ValueError("a batch cannot be looked at for ever: give its monitor a number of tries")
        self._database = database
        self._clock = clock
        self._alone = alone
        self._random = random
        self._provider = provider
        self._strategy = strategy
        self._progress = progress or Unheard()
        self._polling = polling
        self._tries = polling.tries
        self._passing = passing
        self._asked = asked
        self._one_by_one: LRUCache[str, bool] = LRUCache(_REMEMBERED)

    def collected(self) -> Collected:
        """The handler of its jobs, whose results are collected, and which tells of each that is settled."""
        return Collected(self.do, settled=self.tell)

    async def do(self, job: Job) -> Outcome | None:
        """Do one job, or drive the batch that it is part of."""
        provider = self._provider
        if provider is None:
            return await self._alone(job)
        begun = job.batch_job_id is not None
        if not begun and (job.process_id in self._one_by_one or self._strategy(job) is Strategy.SYNC):
            return await self._alone(job)
        try:
            if job.batch_job_id is not None:
                return await self._look(provider, job, job.batch_job_id)
            together = await self._unfinished(job.process_id)
            batch = await provider.submit(job.process_id, together)
        except BatchUnsupported as unsupported:
            self._one_by_one[job.process_id] = True
            _log.info("batch_unsupported", process=job.process_id, kind=job.kind, reason=str(unsupported))
            return await self._alone(job)
        except LeaseLost:
            raise
        except Exception as error:
            return await self._failed(provider, job, error)
        return await self._submitted(provider, job, together, batch)

    async def cancel(self, process_id: str) -> None:
        """Nobody wants these results any more: its batch is cancelled, its jobs are deleted for good."""
        batches = {job.batch_job_id for job in await self._unfinished(process_id) if job.batch_job_id is not None}
        for batch in batches:
            if self._provider is not None:
                await self._provider.cancel(batch)
        async with self._database.transaction() as connection:
            ids = await connection.scalars(select(jobs.c.id).where(jobs.c.process_id == process_id))
            await Jobs(connection).delete(ids.all())

    async def tell(self, job: Job) -> None:
        """A job was settled: tell how many of its process are."""
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

    async def _submitted(self, provider: BatchProvider, job: Job, together: Sequence[Job], batch: str) -> Outcome:
        now = self._clock.now()
        entry = MonitorEntry.started(now).answered(self._polling, now, self._random)
        try:
            await self._note(job, entry, together, batch)
        except LeaseLost:
            if not await self._unfinished(job.process_id):
                # Cancelled while it was being submitted, when nobody knew of a batch yet.
                await provider.cancel(batch)
            raise
        _log.info("batch_submitted", process=job.process_id, batch=batch, jobs=len(together))
        return self._hold(entry)

    async def _look(self, provider: BatchProvider, job: Job, batch: str) -> Outcome:
        status = await provider.status(batch)
        match status.state:
            case BatchState.RUNNING:
                entry = _stored(job).answered(self._polling, self._clock.now(), self._random)
                await self._note(job, entry, [job], batch)
                await self._progress.on_progress(_event(job.process_id, status))
                return self._hold(entry)
            case BatchState.ENDED:
                return await self._settle(job, await provider.results(batch))
            case BatchState.FAILED:
                return await self._give_up(job, status.message or "the batch failed as a whole")

    async def _failed(self, provider: BatchProvider, job: Job, error: Exception) -> Outcome:
        """A question failed: first the monitor's waits, after a few errors in a row a redelivery's, then no more."""
        if (delay := self._asked(error)) is not None:
            return Hold(delay)
        words = f"{type(error).__name__}: {error}"
        _log.warning("batch_question_failed", process=job.process_id, batch=job.batch_job_id, exc_info=error)
        after = self._after_error(_stored(job)) if self._passing(error) else None
        if after is not None:
            await self._note(job, after, [job], job.batch_job_id)
            return self._hold(after)
        if job.batch_job_id is not None:
            try:
                await provider.cancel(job.batch_job_id)
            except Exception:
                _log.exception("batch_not_cancelled", process=job.process_id, batch=job.batch_job_id)
        return await self._give_up(job, words)

    def _after_error(self, entry: MonitorEntry) -> MonitorEntry | None:
        now = self._clock.now()
        if (after := entry.failed(self._polling, now, self._random)) is not None:
            return after
        redeliveries = entry.errors + 1 - self._tries
        if redeliveries >= _REDELIVERIES:
            return None
        return MonitorEntry(now + wait(REDELIVERY, redeliveries, random=self._random), errors=entry.errors + 1)

    async def _give_up(self, job: Job, error: str) -> Outcome:
        return await self._settle(job, {each.id: Failed(error) for each in await self._unfinished(job.process_id)})

    async def _settle(self, job: Job, results: Mapping[str, Result]) -> Outcome:
        """Store the results of all the others, then answer with this job's own: while it stands, all is asked again."""
        missing = Failed("the batch ended without a result for this job")
        now = self._clock.now()
        async with self._database.transaction() as connection:
            store = Jobs(connection)
            await store.hold_fast(job)
            others = [each for each in await store.unfinished(job.process_id) if each.id != job.id]
            if others:
                rows = [_row(each, results.get(each.id, missing), now) for each in others]
                await connection.execute(_SETTLE, rows)
        match results.get(job.id, missing):
            case Succeeded(response):
                return Done(response)
            case Failed(error):
                return Dead(error, retryable=False)

    async def _unfinished(self, process_id: str) -> tuple[Job, ...]:
        async with self._database.reading() as connection:
            return await Jobs(connection).unfinished(process_id)

    async def _note(self, job: Job, entry: MonitorEntry, together: Sequence[Job], batch: str | None) -> None:
        """Store with these jobs which batch they are in, and where its monitor stands. Raises LeaseLost."""
        known = {"batch_job_id": batch, "response_json": {"looks": entry.looks, "errors": entry.errors}}
        async with self._database.transaction() as connection:
            await Jobs(connection).hold_fast(job)
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
        updated_at=bindparam("its_time", type_=UtcDateTime),
        owner=None,
        leased_until=None,
    )
)


def _row(job: Job, result: Result, now: datetime) -> dict[str, Any]:
    row: dict[str, Any] = {"its_id": job.id, "its_time": now, "its_response": None, "its_error": None}
    match result:
        case Succeeded(response):
            return row | {
                "its_status": JobStatus.COMPLETED,
                "its_response": None if response is None else dict(response),
            }
        case Failed(error):
            return row | {"its_status": JobStatus.FAILED, "its_error": error}


def _stored(job: Job) -> MonitorEntry:
    """Where the monitor of its batch stands; a job that is not done has that for its response."""
    known = job.response or {}
    return MonitorEntry(job.not_before, known.get("looks", 0), known.get("errors", 0))


def _event(process_id: str, status: BatchStatus) -> ProgressEvent:
    words = status.message or f"{status.done} of {status.total} jobs are done"
    return ProgressEvent(process_id, ProgressStatus.IN_PROGRESS, words, status.done, status.total)
