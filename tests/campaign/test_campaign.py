"""The crash campaign: workers are killed, or stall, at random instants while hundreds of jobs flow, on both databases.

A run is bounded in time. What happens when is decided by a seed that is printed; `IMQ_CAMPAIGN_SEED` repeats it in
the same way, as far as processes let themselves be repeated, and `IMQ_CAMPAIGN_SECONDS` makes a run longer.
"""

import asyncio
import os
import random
import signal
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from sqlalchemy import select, text, update

from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import jobs
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.timing.clock import SystemClock
from tests.acceptance.template import Forked, Template
from tests.support.real_time import LIMIT
from tests.support.unfinished_jobs import unfinished_jobs

SECONDS = float(os.environ.get("IMQ_CAMPAIGN_SECONDS", "4"))
JOBS_PER_SECOND = 45
LONGEST_STALL = 5.0
"""Seconds."""
PROCESSES = 12
LEAST_DEATHS = 3
WORKERS = 3
"""On a database that several share."""

pytestmark = [pytest.mark.process, pytest.mark.slow]


@dataclass
class Campaign:
    """Workers that are killed and started again, and the jobs that they were given."""

    url: str
    directory: Path
    chance: random.Random
    given: dict[str, bool] = field(default_factory=dict)
    """Each job's name, and whether it fails at first: then it may be overtaken."""
    away: set[str] = field(default_factory=set)
    """Workers that are dead, or suspended."""
    suspended: int = 0
    deaths: int = 0
    stalls: int = 0
    template: Template = field(default_factory=Template)

    @property
    def log(self) -> Path:
        return self.directory / "done.txt"

    async def start(self, owner: str) -> Forked:
        """A worker process."""
        arguments = (self.url, owner, str(self.log))
        output = self.directory / "output.txt"
        return await self.template.fork_module("tests.campaign.worker", arguments, os.environ, output)

    async def harass(self, slot: int, over: Callable[[], bool]) -> None:
        """Keep one worker alive and kill it at random instants; in the end leave it alone until all is over."""
        until = time.monotonic() + SECONDS
        number = 0
        while not over():
            number += 1
            owner = f"w{slot}.{number}"
            worker = await self.start(owner)
            try:
                if time.monotonic() < until or self.deaths < LEAST_DEATHS:
                    await asyncio.sleep(self.chance.uniform(0.2, 2.2))  # no-sleep-ok: real processes, real time
                    if self.several and self.chance.random() < 0.5:
                        await self.stall(worker, owner, over)
                else:
                    while not over():  # noqa: ASYNC110 - the end of other processes' work is no event
                        await asyncio.sleep(0.05)  # no-sleep-ok: the same
                assert worker.returncode is None, (self.directory / "output.txt").read_text()[-3000:]
            finally:
                if worker.returncode is None:
                    worker.send_signal(signal.SIGKILL)
                    await worker.wait()
                self.away.add(owner)
            self.deaths += 1

    async def stall(self, worker: Forked, owner: str, over: Callable[[], bool]) -> None:
        """Suspend a worker until others have its jobs, or did them, or all are suspended.

        One that was stopped within a transaction keeps its rows locked, so it continues after a while in any case.
        """
        self.stalls += 1
        self.suspended += 1
        worker.send_signal(signal.SIGSTOP)
        self.away.add(owner)
        database, end = Database(self.url), time.monotonic() + LONGEST_STALL
        try:
            while (  # noqa: ASYNC110 - the same
                not over() and time.monotonic() < end and self.suspended < WORKERS and await _has_jobs(database, owner)
            ):
                await asyncio.sleep(0.05)  # no-sleep-ok: real processes, real time
        finally:
            self.suspended -= 1
            self.away.discard(owner)
            worker.send_signal(signal.SIGCONT)
            await database.close()
        await asyncio.sleep(0.2)  # no-sleep-ok: the same

    async def end_leases(self, database: Database) -> None:
        """End the leases of workers that are away, as time would; one may come from a worker that has just died."""
        now = SystemClock().now()
        theirs = jobs.c.owner.in_(self.away), jobs.c.leased_until > now
        async with database.transaction() as connection:
            await connection.execute(update(jobs).where(*theirs).values(leased_until=now))

    @property
    def several(self) -> bool:
        """Whether several workers share the database."""
        return not self.url.startswith("sqlite")

    async def give(self, database: Database) -> None:
        """Enqueue jobs, a few at a time: some fail at first, some are held, some go first."""
        rounds = int(SECONDS * 5)
        for number in range(rounds):
            async with database.transaction() as connection:
                for each in range(JOBS_PER_SECOND // 5):
                    await self._enqueue(Jobs(connection), f"{number:05}.{each}")
            await asyncio.sleep(SECONDS / rounds)  # no-sleep-ok: they come while processes live

    async def _enqueue(self, jobs: Jobs, name: str) -> None:
        fails = self.chance.choice([0, 0, 0, 1, 2])
        await jobs.enqueue(
            kind="k",
            request={"name": name, "fails": fails, "holds": self.chance.choice([0, 0, 0, 0, 1])},
            process_id=f"p{self.chance.randrange(PROCESSES)}",
            now=SystemClock().now(),
        )
        self.given[name] = fails > 0

    async def run(self, workers: int) -> None:
        """Until every job is done."""
        database = Database(self.url)
        async with database.transaction() as connection:
            counted = "integer PRIMARY KEY" if database.dialect == "sqlite" else "bigserial PRIMARY KEY"
            columns = f"seq {counted}, name text NOT NULL, process_id text NOT NULL, owner text NOT NULL"
            await connection.execute(text(f"CREATE TABLE effects ({columns})"))
        finished = False
        await self.template.start()
        harassing = [asyncio.create_task(self.harass(slot, lambda: finished)) for slot in range(workers)]
        giving = asyncio.create_task(self.give(database))
        try:
            async with asyncio.timeout(SECONDS + LIMIT):
                while not giving.done() or self.deaths < LEAST_DEATHS or await _unfinished(database):
                    if any(task.done() for task in harassing):
                        break
                    await self.end_leases(database)
                    await asyncio.sleep(0.05)  # no-sleep-ok: real processes, real time
            await giving
        finally:
            finished = True
            giving.cancel()
            await asyncio.gather(*harassing)
            await self.template.close()
        try:
            await self.judge(database)
        finally:
            async with database.transaction() as connection:
                await connection.execute(text("DROP TABLE effects"))
            await database.close()

    async def judge(self, database: Database) -> None:
        """Every job done; its effect exactly once, and begun at least once; in order; no lease left."""
        async with database.reading() as connection:
            rows = (await connection.execute(text("SELECT name, process_id FROM effects ORDER BY seq"))).all()
            left = (await connection.execute(text("SELECT count(*) FROM jobs"))).scalar_one()
        assert left == 0
        assert sorted(row.name for row in rows) == sorted(self.given)
        assert set(self.log.read_text().split()) == set(self.given)
        order = defaultdict(list)
        for row in rows:
            if not self.given[row.name]:
                order[row.process_id].append(row.name)
        for process, names in order.items():
            assert names == sorted(names), f"out of order: {process}"


async def _has_jobs(database: Database, owner: str) -> bool:
    async with database.reading() as connection:
        return (await connection.execute(select(jobs.c.id).where(jobs.c.owner == owner).limit(1))).first() is not None


async def _unfinished(database: Database) -> int:
    async with database.reading() as connection:
        return await unfinished_jobs(Jobs(connection))


@pytest.mark.thorough("postgres")
async def test_workers_killed_at_random_instants_do_every_job_once_and_in_order(
    database_url: str, tmp_path: Path
) -> None:
    """Nothing is lost, nothing that is stored is done twice, and leases of the dead return."""
    seed = int(os.environ.get("IMQ_CAMPAIGN_SEED") or random.randrange(10**6))
    print(f"IMQ_CAMPAIGN_SEED={seed}")
    campaign = Campaign(database_url, tmp_path, random.Random(seed))
    await campaign.run(workers=WORKERS if campaign.several else 1)
    tries = len(campaign.log.read_text().split())
    print(f"{len(campaign.given)} jobs, {tries} tries, {campaign.deaths} deaths, {campaign.stalls} stalls")
