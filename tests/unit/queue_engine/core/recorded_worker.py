"""A worker with a recorded handler: what it began, when, and how it ended; and a clock that only tests move."""

import asyncio
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.dead_letters import DeadLetter, DeadLetters
from queue_engine.core.jobs.job import Job
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.jobs.worker import Handler, ResultHandler, Worker, WorkerSettings
from tests.support.real_time import LIMIT
from tests.support.unfinished_jobs import unfinished_jobs

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
LEASE = timedelta(seconds=30)
HOUR = timedelta(hours=1)


class Clock:
    """Time that the test moves."""

    def __init__(self) -> None:
        self.time = START
        self._sleepers: dict[asyncio.Event, datetime] = {}
        self._stirred = asyncio.Condition()

    def now(self) -> datetime:
        return self.time

    async def sleep(self, duration: timedelta) -> None:
        over = asyncio.Event()
        self._sleepers[over] = self.time + duration
        async with self._stirred:
            self._stirred.notify_all()
        await over.wait()

    async def pass_to_next_sleeper(self) -> None:
        """Wait until somebody sleeps, then move the time to the first one's end and wake it."""
        async with asyncio.timeout(LIMIT), self._stirred:
            await self._stirred.wait_for(lambda: self._sleepers)
        over = min(self._sleepers, key=lambda sleeper: self._sleepers[sleeper])
        self.time = self._sleepers.pop(over)
        over.set()


class RecordedHandler:
    """A handler whose jobs begin, and end when the test says so."""

    def __init__(self) -> None:
        self.begun: list[str] = []
        self.ended: list[str] = []
        self._gates: dict[str, asyncio.Event] = {}
        self._stirred = asyncio.Condition()

    async def __call__(self, job: Job) -> None:
        name = job.request["name"]
        self.begun.append(name)
        async with self._stirred:
            self._stirred.notify_all()
        await self._gate(name).wait()
        self.ended.append(name)

    def end(self, *names: str) -> None:
        """Let these jobs end, now or when they begin."""
        for name in names:
            self._gate(name).set()

    async def until_begun(self, name: str) -> None:
        """Return when this job has begun."""
        async with asyncio.timeout(LIMIT), self._stirred:
            await self._stirred.wait_for(lambda: name in self.begun)

    def _gate(self, name: str) -> asyncio.Event:
        return self._gates.setdefault(name, asyncio.Event())


class Counted:
    """A meter that remembers its counts."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()
        self.times: dict[tuple[str, str], list[float]] = {}

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counts[name, labels["kind"]] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        self.times.setdefault((name, labels["kind"]), []).append(seconds)


def worker_of(
    database: Database,
    clock: Clock,
    handlers: Mapping[str, Handler | ResultHandler],
    *,
    owner: str = "w1",
    meter: Counted | None = None,
    **settings: Any,
) -> Worker:
    return Worker(database, clock, handlers, WorkerSettings(owner, lambda: 0.5, meter=meter or Counted(), **settings))


async def put(database: Database, *names: str, process_id: str | None = None, kind: str = "k") -> None:
    """Enqueue jobs, each of a process of its own unless one is given."""
    async with database.transaction() as connection:
        for name in names:
            await Jobs(connection).enqueue(kind=kind, request={"name": name}, process_id=process_id or name, now=START)


async def depth(database: Database) -> int:
    async with database.reading() as connection:
        return await unfinished_jobs(Jobs(connection))


async def dead(database: Database) -> tuple[DeadLetter, ...]:
    async with database.reading() as connection:
        return await DeadLetters(connection).list(100)


async def results(database: Database, process_id: str) -> tuple[Job, ...]:
    async with database.reading() as connection:
        return await Jobs(connection).get_results(process_id)
