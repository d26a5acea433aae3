"""Claim stored jobs, run the handler of each kind, and store the outcome."""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog

from queue_engine.core.concurrency.micro_batch import MicroBatch
from queue_engine.core.concurrency.request_context import JOB_HOLDER, RequestPriority, working
from queue_engine.core.concurrency.tasks import Pool, kept
from queue_engine.core.database.database import Database
from queue_engine.core.database.outage import fault_of
from queue_engine.core.jobs.dead_letters import DeadLetters, FollowUp, no_follow_up
from queue_engine.core.jobs.job import Dead, Hold, Job, JobResult, LeaseLost, Outcome, Retry
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.observability import trace
from queue_engine.core.observability.log import logged
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.timing import backoff
from queue_engine.core.timing.clock import Clock

_log = structlog.get_logger("imq.worker")

_ATTEMPTS = 9
"""About an hour of attempts; then the job is a dead letter, for a person to see."""

_DEATHS = 9
"""Attempts in a row that ended with their worker; then the job runs alone, and is dead if that ends it, too."""

_ALONE = timedelta(seconds=30)
"""How long such a job waits for those under way, and how long no other begins beside it: others wait a minute at most,
whatever hangs.
"""

_DATABASE_AWAY = timedelta(seconds=1)
"""When a job is retried after the database was down."""

Handler = Callable[[Job], Awaitable[Outcome | None]]
"""Does one job. None means done; raising means that it failed, for good or not as the worker's `is_retryable` says."""


async def _no_listener(job: Job) -> None:
    """Do nothing."""


@dataclass(frozen=True, slots=True)
class ResultHandler:
    """A handler whose jobs somebody waits for: done or dead they stay, until `Jobs.take_results` takes them.

    `settled` is called for each when it does.
    """

    handler: Handler
    settled: Callable[[Job], Awaitable[None]] = _no_listener


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """How a worker claims jobs, and what it does with errors.

    `owner` names the claims of its process; `random` gives numbers in [0, 1) for jitter.
    """

    owner: str
    random: Callable[[], float]
    lease: timedelta = timedelta(seconds=30)
    concurrency: int = 16
    is_retryable: Callable[[Exception], bool] = lambda error: True
    """Whether another attempt may help after this error of a handler; if not, the job is dead at once."""
    attempt_level: Callable[[Exception], int] = lambda error: logging.WARNING
    """The level at which a failed attempt is logged."""
    meter: Meter = field(default_factory=NullMeter)
    follow_up: FollowUp = no_follow_up
    """Names the jobs that a dead letter causes."""


@logged("worker")
class Worker:
    """Does due jobs, at most `concurrency` at once; those of one process one after another, as the store gives them."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        handlers: Mapping[str, Handler | ResultHandler],
        settings: WorkerSettings,
        *,
        done: Callable[[], None] = lambda: None,
    ) -> None:
        """`done` is called when a job has ended, so that there is room for another."""
        self._database = database
        self._clock = clock
        self._handlers = handlers
        self._settings = settings
        self._meter = settings.meter
        self._pool = Pool(settings.concurrency, done=done)
        self._finish = MicroBatch(self._finish_together)
        self._doing: dict[str, Job] = {}
        """The claim that each running job stands under."""
        self._drains = False
        """Whether a job that runs alone is due, and waits for those under way."""
        self._alone_until: datetime | None = None
        """Until when no job begins, while that one waits or runs."""

    async def start_due(self, *, at_most: int | None = None) -> bool:
        """Start due jobs as far as there is room; whether any was due. `at_most` leaves room for so many at once."""
        room = self._pool.free if at_most is None else self._pool.free_within(at_most)
        now = self._clock.now()
        if room <= 0 or self._begins_none(now):
            return False
        async with self._database.transaction() as connection:
            jobs = Jobs(connection)
            claimed = await jobs.claim_some(
                room, owner=self._settings.owner, now=now, lease=self._settings.lease, poison=not self._runs_poison_job
            )
            begun = await self._begun_alone(jobs, claimed, now)
        for job in begun:
            if job.id in self._doing:
                # Its lease ended while it runs here: the clock jumped, or the database was away. It just goes on.
                self._doing[job.id] = job
            else:
                self._doing[job.id] = job
                self._pool.start(self._hold_and_do(job))
        return bool(begun)

    async def run_due(self) -> bool:
        """Do what is due and wait until that is done; whether anything was."""
        done = False
        while await self.start_due():
            done = True
            await self._pool.join()
        return done

    async def next_due(self) -> datetime | None:
        """When the next job is due. None while there is no room for one: `done` is called when there is."""
        if self._pool.free <= 0:
            return None
        if self._begins_none(self._clock.now()):
            return self._alone_until
        async with self._database.reading() as connection:
            return await Jobs(connection).next_due(poison=not self._runs_poison_job)

    async def drain(self) -> None:
        """Wait for the jobs under way."""
        await self._pool.join()
        await self._finish.drain()

    async def cancel(self) -> None:
        """End the jobs under way; they come back when their lease ends."""
        await self._pool.cancel()
        await self._finish.drain()

    async def _hold_and_do(self, job: Job) -> None:
        async def renew(until: datetime) -> bool:
            async with self._database.transaction() as connection:
                return await Jobs(connection).renew(self._doing[job.id], until)

        again = backoff.longest(backoff.JOB, job.attempt)
        with (
            trace.continued(job.trace, f"job {job.kind}"),
            working(RequestPriority.NOW, holder=f"{JOB_HOLDER}{job.id}", again=again),
        ):
            try:
                async with kept(self._clock, self._settings.lease, renew):
                    with suppress(LeaseLost):
                        await self._do(job)
            finally:
                del self._doing[job.id]

    @property
    def _runs_poison_job(self) -> bool:
        """Whether a job runs that may end this process: no other such job is claimed until that one has ended."""
        return any(job.poison for job in self._doing.values())

    def _begins_none(self, now: datetime) -> bool:
        """Whether nothing may begin beside the jobs under way: one runs alone, or waits for their end."""
        if self._alone_until is None or now >= self._alone_until:
            return False
        return any(self._drains or job.deaths >= _DEATHS for job in self._doing.values())

    async def _begun_alone(self, jobs: Jobs, claimed: Sequence[Job], now: datetime) -> Sequence[Job]:
        """Return which claimed jobs begin, and give the others back in the transaction of the claim.

        Other jobs may have ended the workers of one that met nine deaths. So it begins once no other runs here, or
        beside those that run for long; if its worker ends then, too, it is the cause as far as jobs are.
        """
        new = [job for job in claimed if job.id not in self._doing]
        suspect = next((job for job in new if job.deaths == _DEATHS), None)
        # After one wait, what still runs has run on for so long without an end of this process.
        self._drains = suspect is not None and bool(self._doing) and not self._drains
        if suspect is None:
            return claimed
        self._alone_until = now + _ALONE
        begun = [job for job in claimed if job not in new or (job is suspect and not self._drains)]
        for job in claimed:
            if job not in begun:
                await jobs.give_back(job, now)
        return begun

    async def _do(self, job: Job) -> None:
        if job.deaths > _DEATHS:
            await self._dead_letter(
                job, Dead(_exhausted_message(job), retryable=False), attempts=job.attempt + job.deaths
            )
            return
        started = self._clock.now()
        outcome = await self._outcome(job)
        job = self._doing[job.id]
        self._meter.observe("job_duration", (self._clock.now() - started).total_seconds(), kind=job.kind)
        match outcome:
            case JobResult():
                await self._done(job, outcome)
            case Hold():
                now = self._clock.now()
                async with self._database.transaction() as connection:
                    await Jobs(connection).hold(job, at=now + outcome.delay, now=now, why=outcome.why)
            case Retry() if job.attempt + 1 < _ATTEMPTS:
                await self._retry(job, outcome)
            case Retry():
                await self._dead_letter(job, Dead(outcome.error, retryable=True), attempts=job.attempt + 1)
            case Dead():
                await self._dead_letter(job, outcome, attempts=job.attempt + 1)

    async def _outcome(self, job: Job) -> Outcome:
        handler = self._handlers.get(job.kind)
        if handler is None:
            # After a downgrade: it waits for the version that knows it.
            return Retry(f"no handler for jobs of the kind {job.kind}")
        if isinstance(handler, ResultHandler):
            handler = handler.handler
        try:
            return await handler(job) or JobResult()
        except Exception as error:
            if (fault := fault_of(error)) is not None:
                _log.debug("job_waits_for_database", kind=job.kind, job=job.id, fault=fault.value)
                return Hold(_DATABASE_AWAY)
            level = self._settings.attempt_level(error)
            _log.log(level, "job_raised", kind=job.kind, job=job.id, attempt=job.attempt + 1, exc_info=error)
            words = f"{type(error).__name__}: {error}"
            if not self._settings.is_retryable(error):
                return Dead(words, retryable=False)
            return Retry(words, level=min(level, logging.INFO))

    async def _done(self, job: Job, outcome: JobResult) -> None:
        if (collected := self._collected(job)) is not None:
            async with self._database.transaction() as connection:
                await Jobs(connection).complete(job, outcome.response, self._clock.now())
            await collected.settled(job)
        else:
            await self._finish(job)
        self._meter.count("jobs_done", kind=job.kind)
        self._meter.observe("job_delay", (self._clock.now() - job.not_before).total_seconds(), kind=job.kind)
        if job.attempt or job.deaths:
            self._meter.count("jobs_recovered", kind=job.kind)

    async def _finish_together(self, done: Sequence[Job]) -> Sequence[None]:
        """Jobs that end at about the same time share a transaction."""
        async with self._database.transaction() as connection:
            await Jobs(connection).finish(done)
        return [None] * len(done)

    async def _retry(self, job: Job, outcome: Retry) -> None:
        now = self._clock.now()
        delay = backoff.wait(backoff.JOB, job.attempt, random=self._settings.random, asked=outcome.delay)
        async with self._database.transaction() as connection:
            await Jobs(connection).retry(job, at=now + delay, error=outcome.error, now=now)
        self._meter.count("jobs_retried", kind=job.kind)
        names = {"kind": job.kind, "job": job.id, "attempt": job.attempt + 1}
        _log.log(outcome.level, "job_retried", **names, again_in=str(delay), error=outcome.error)

    async def _dead_letter(self, job: Job, outcome: Dead, *, attempts: int) -> None:
        now = self._clock.now()
        collected = self._collected(job)
        async with self._database.transaction() as connection:
            if collected is not None:
                await Jobs(connection).fail(job, outcome.error, now)
            else:
                letters = DeadLetters(connection, meter=self._meter, follow_up=self._settings.follow_up)
                await letters.add(job, outcome.error, now, attempts=attempts, retryable=outcome.retryable)
        # A person can mend the cause of a retryable one, so the fault is not IMQ's.
        level = logging.WARNING if outcome.retryable else logging.ERROR
        _log.log(level, "job_dead", kind=job.kind, job=job.id, attempts=attempts, error=outcome.error)
        if collected is not None:
            await collected.settled(job)

    def _collected(self, job: Job) -> ResultHandler | None:
        handler = self._handlers.get(job.kind)
        return handler if isinstance(handler, ResultHandler) else None


def _exhausted_message(job: Job) -> str:
    last = "" if job.error_message is None else f" The last error: {job.error_message}"
    why = "its worker ended while it was done, also when no other began beside it"
    return f"Given up after {job.deaths} tries: {why}.{last}"
