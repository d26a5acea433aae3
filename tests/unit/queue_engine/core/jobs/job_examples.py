"""Jobs with only what a test cares about named."""

from datetime import UTC, datetime, timedelta
from uuid import uuid4

from queue_engine.core.jobs.job import Job
from queue_engine.core.jobs.job_store import Jobs
from tests.support.claims import claim_one

NOW = datetime(2026, 1, 1, 12, tzinfo=UTC)
LEASE = timedelta(seconds=30)
SOON = timedelta(seconds=10)


HOUR = timedelta(hours=1)


async def put(
    jobs: Jobs,
    kind: str = "k",
    *,
    priority: int = 0,
    not_before: datetime | None = None,
    process_id: str | None = None,
) -> str:
    """A job, of a process of its own unless one is named."""
    return await jobs.enqueue(
        kind=kind,
        request={"kind": kind},
        process_id=process_id or uuid4().hex,
        now=NOW,
        priority=priority,
        not_before=not_before,
    )


async def take(jobs: Jobs, *, owner: str = "w", now: datetime = NOW) -> Job:
    job = await claim_one(jobs, owner=owner, now=now, lease=LEASE)
    assert job is not None
    return job
