"""Count the jobs that are pending or in progress, which only tests and benchmarks ask for."""

from sqlalchemy import func, select

from queue_engine.core.jobs.job import UNFINISHED, jobs
from queue_engine.core.jobs.job_store import Jobs


async def unfinished_jobs(store: Jobs) -> int:
    """Return how many jobs of the store are pending or in progress."""
    found = await store._connection.execute(select(func.count()).select_from(jobs).where(UNFINISHED))
    return found.scalar_one()
