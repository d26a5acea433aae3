"""A worker process for the crash campaign, killed at any instant: `python -m tests.campaign.worker URL OWNER LOG`.

Each job has two effects: a row that is written in the transaction that finishes it, and before that a line in a file,
which no transaction can take back. A job that was done by somebody else meanwhile leaves no row.
"""

import asyncio
import os
import random
import sys
from contextlib import suppress
from datetime import datetime, timedelta

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.concurrency.tasks import kept
from queue_engine.core.database.database import Database
from queue_engine.core.jobs.job import Job, LeaseLost
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.timing.clock import SystemClock

_LEASE = timedelta(minutes=10)
"""Longer than a campaign lasts, which ends the leases of the dead itself: no living worker loses one by being slow."""
_RENEWED_BY = timedelta(milliseconds=900)
_TOGETHER = 8
_SOON = timedelta(milliseconds=30)
_EFFECT = text("INSERT INTO effects (name, process_id, owner) VALUES (:name, :process, :owner)")


async def work(url: str, owner: str, log: int) -> None:
    """Do jobs until killed."""
    database, clock = Database(url), SystemClock()
    if database.dialect == "sqlite":
        # The only process, started after the one before it had died.
        async with database.transaction() as connection:
            await Jobs(connection).release_all(clock.now())
    while True:
        async with database.transaction() as connection:
            claimed = await Jobs(connection).claim_some(_TOGETHER, owner=owner, now=clock.now(), lease=_LEASE)
        if not claimed:
            await asyncio.sleep(0.02)  # no-sleep-ok: a process of its own lives in real time
        await asyncio.gather(*(_do(database, clock, job, log) for job in claimed))


async def _do(database: Database, clock: SystemClock, job: Job, log: int) -> None:
    async def renew(_until: datetime) -> bool:
        async with database.transaction() as connection:
            return await Jobs(connection).renew(job, clock.now() + _LEASE)

    async with kept(clock, _RENEWED_BY, renew):
        await asyncio.sleep(random.random() / 12)  # no-sleep-ok: it takes its time
        os.write(log, f"{job.request['name']}\n".encode())
        with suppress(LeaseLost):
            async with database.transaction() as connection:
                await _settle(Jobs(connection), connection, job, clock.now())


async def _settle(jobs: Jobs, connection: AsyncConnection, job: Job, now: datetime) -> None:
    """What the job is to become, by its own request. Raises LeaseLost, and then leaves nothing."""
    if job.request["fails"] > job.attempt:
        await jobs.retry(job, at=now + _SOON, error="as it should", now=now)
    elif job.request["holds"] >= job.claims:
        await jobs.hold(job, at=now + _SOON, now=now)
    else:
        effect = {"name": job.request["name"], "process": job.process_id, "owner": job.owner}
        await connection.execute(_EFFECT, effect)
        # After its effect: that one too must be gone when the claim no longer stands.
        await jobs.remove(job)


def main() -> None:
    """Run until killed."""
    url, owner, path = sys.argv[1:]
    log = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    asyncio.run(work(url, owner, log))


if __name__ == "__main__":
    main()
