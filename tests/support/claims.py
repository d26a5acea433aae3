"""One job at a time, for tests that follow each claim by itself."""

from datetime import datetime, timedelta

from queue_engine.core.jobs.job import Job
from queue_engine.core.jobs.job_store import Jobs


async def claim_one(jobs: Jobs, *, owner: str, now: datetime, lease: timedelta) -> Job | None:
    """Claim the first due job; None if there is none."""
    return next(iter(await jobs.claim_some(1, owner=owner, now=now, lease=lease)), None)
