"""An office that does bulk work with a provider of batches, and may die at any instant."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.batch import BatchError, BatchResult, BatchState, BatchStatus, Result
from queue_engine.core.jobs.batch_jobs import BatchJobs, BatchSettings
from queue_engine.core.jobs.job_store import Job, Jobs
from queue_engine.core.jobs.outcomes import JobResult
from queue_engine.core.jobs.worker import Worker, WorkerSettings
from queue_engine.core.observability.progress import ProgressEvent

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
PROCESS = "process-1"
RUNNING = BatchStatus(BatchState.RUNNING, 1, 3)
ENDED = BatchStatus(BatchState.ENDED, 3, 3)


class Died(BaseException):
    """The process ends here."""


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.time = START

    def now(self) -> datetime:
        return self.time

    async def sleep(self, duration: timedelta) -> None:
        await asyncio.Event().wait()


class Provider:
    """Runs batches as scripted: each answer to a question for the status is the next of `says`, the last for ever."""

    def __init__(self, *says: BatchStatus | BaseException) -> None:
        self.says = list(says) or [ENDED]
        self.batches: dict[str, list[str]] = {}
        self.at_submit: list[BaseException] = []
        """Raised at the next submissions, after the batch has begun if it is a death."""
        self.at_results: list[BaseException] = []
        self.lost: set[str] = set()
        self.polls: list[float] = []
        self.cancelled: list[str] = []
        self.clock: Clock | None = None
        self.meanwhile: Callable[[], Any] | None = None

    async def submit(self, process_id: str, jobs: Sequence[Job]) -> str:
        if self.at_submit and not isinstance(self.at_submit[0], Died):
            raise self.at_submit.pop(0)
        self.batches.setdefault(process_id, [job.request["name"] for job in jobs])
        self.names = {job.id: job.request["name"] for job in jobs}
        if self.at_submit:
            raise self.at_submit.pop(0)
        if self.meanwhile is not None:
            await self.meanwhile()
        return f"batch-of-{process_id}"

    async def status(self, batch_job_id: str) -> BatchStatus:
        assert self.clock is not None
        self.polls.append(round((self.clock.time - START).total_seconds(), 3))
        answer = self.says.pop(0) if len(self.says) > 1 else self.says[0]
        if isinstance(answer, BaseException):
            raise answer
        return answer

    async def results(self, batch_job_id: str) -> Mapping[str, Result]:
        if self.at_results:
            raise self.at_results.pop(0)
        answers = {job_id: _result(name) for job_id, name in self.names.items()}
        return {job_id: answer for job_id, answer in answers.items() if self.names[job_id] not in self.lost}

    async def cancel(self, batch_job_id: str) -> None:
        self.cancelled.append(batch_job_id)


def _result(name: str) -> Result:
    return BatchError("red") if name.startswith("bad") else BatchResult({"did": name})


class RecordedProgress:
    """Remembers progress."""

    def __init__(self) -> None:
        self.events: list[ProgressEvent] = []

    async def on_progress(self, event: ProgressEvent) -> None:
        assert event.correlation_id == PROCESS
        self.events.append(event)

    @property
    def counts(self) -> list[tuple[int, int]]:
        return [(event.done, event.total) for event in self.events]


class BulkWorker:
    """A worker with one bulk handler, which may die and come back."""

    def __init__(self, database: Database, provider: Provider | None, **options: Any) -> None:
        self.database = database
        self.clock = Clock()
        self.provider = provider
        if provider is not None:
            provider.clock = self.clock
        self.progress = RecordedProgress()
        self.alone: list[str] = []
        self.options = options
        self.come_back()

    def come_back(self) -> None:
        """A new process: nothing is remembered but what is stored."""
        self.bulk = BatchJobs(
            self.database,
            self.clock,
            self._alone,
            random=lambda: 0.5,
            batches=None if self.provider is None else BatchSettings(self.provider, **self.options),
            progress=self.progress,
        )
        self.worker = Worker(
            self.database,
            self.clock,
            {"bulk": self.bulk.collected()},
            WorkerSettings(f"worker-{id(self.bulk)}", lambda: 0.5, lease=LEASE),
        )

    async def _alone(self, job: Job) -> JobResult:
        name = job.request["name"]
        self.alone.append(name)
        if name.startswith("bad"):
            raise ValueError("red")
        return JobResult({"did": name})

    async def enqueue(self, *names: str) -> None:
        """The jobs of one process."""
        async with self.database.transaction() as connection:
            requests = [(PROCESS, {"name": name}) for name in names]
            await Jobs(connection).enqueue_all(kind="bulk", requests=requests, now=self.clock.now())

    async def due(self) -> datetime | None:
        async with self.database.reading() as connection:
            return await Jobs(connection).next_due()

    async def run(self, *, rounds: int = 300) -> None:
        """Let time pass until nothing is left to do."""
        for _ in range(rounds):
            due = await self.due()
            if due is None:
                return
            self.clock.time = max(due, self.clock.time)
            await self.worker.run_due()
        raise AssertionError("no end")

    async def step(self, times: int = 1) -> None:
        """Let time pass to what is due next, and do that."""
        for _ in range(times):
            self.clock.time = max(await self.due() or START, self.clock.time)
            await self.worker.run_due()

    async def results(self) -> list[tuple[str, Mapping[str, Any] | None, str | None]]:
        """What a consumer takes, which deletes it."""
        async with self.database.transaction() as connection:
            found = await Jobs(connection).take_results(PROCESS)
            assert await Jobs(connection).unfinished(PROCESS) == ()
        return [(job.request["name"], job.response, job.error_message) for job in found]
