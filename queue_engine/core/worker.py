"""The worker: claims stored jobs, has each done by the handler of its kind, and settles what became of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from queue_engine.core import backoff
from queue_engine.core.clock import Clock
from queue_engine.core.database import Database
from queue_engine.core.gather import Gather
from queue_engine.core.jobs import Job, Jobs, LeaseLost
from queue_engine.core.lease import kept
from queue_engine.core.pool import Pool

_log = structlog.get_logger("imq.worker")

_ATTEMPTS = 9
"""About an hour of tries; then the job is kept as failed, for a person to see."""


@dataclass(frozen=True, slots=True)
class Hold:
    """A handler's answer: not a failure, but try again after `delay`."""

    delay: timedelta


Handler = Callable[[Job], Awaitable[Hold | None]]
"""Does one job. None means done; raising means to try again later, a bounded number of times."""


class Worker:
    """Does due jobs, at most `concurrency` at once; those of one process one after another, as the store gives them."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        handlers: Mapping[str, Handler],
        *,
        owner: str,
        random: Callable[[], float],
        lease: timedelta = timedelta(seconds=30),
        done: Callable[[], None] = lambda: None,
        concurrency: int = 16,
    ) -> None:
        self._database = database
        self._clock = clock
        self._handlers = handlers
        self._owner = owner
        self._random = random
        self._lease = lease
        self._pool = Pool(concurrency, done=done)
        self._finish = Gather(self._finish_together)

    async def start_due(self) -> bool:
        """Start due jobs as far as there is room; whether any was due."""
        if (room := self._pool.free) <= 0:
            return False
        async with self._database.transaction() as connection:
            claimed = await Jobs(connection).claim_some(
                room, owner=self._owner, now=self._clock.now(), lease=self._lease
            )
        for job in claimed:
            self._pool.start(self._hold_and_do(job))
        return bool(claimed)

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
        async with self._database.reading() as connection:
            return await Jobs(connection).next_due()

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
                return await Jobs(connection).renew(job.id, self._owner, until)

        async with kept(self._clock, self._lease, renew):
            with suppress(LeaseLost):
                await self._do(job)

    async def _do(self, job: Job) -> None:
        try:
            answer = await self._handlers[job.kind](job)
        except Exception as error:
            await self._failed(job, error)
            return
        if answer is None:
            await self._finish(job)
            return
        now = self._clock.now()
        async with self._database.transaction() as connection:
            await Jobs(connection).hold(job, at=now + answer.delay, now=now)

    async def _finish_together(self, done: Sequence[Job]) -> Sequence[None]:
        """Jobs that end at about the same time share a transaction."""
        async with self._database.transaction() as connection:
            await Jobs(connection).finish(done)
        return [None] * len(done)

    async def _failed(self, job: Job, error: Exception) -> None:
        now = self._clock.now()
        words = f"{type(error).__name__}: {error}"
        final = job.attempt + 1 >= _ATTEMPTS
        log = _log.error if final else _log.warning
        log("job_failed", kind=job.kind, attempt=job.attempt + 1, final=final, exc_info=error)
        async with self._database.transaction() as connection:
            if final:
                await Jobs(connection).fail(job, words, now)
            else:
                again = now + backoff.wait(backoff.JOB, job.attempt, random=self._random)
                await Jobs(connection).retry(job, at=again, error=words, now=now)
