"""A sweep's parts, done at once."""

from dataclasses import asdict
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

from queue_engine.core.jobs.job import Job
from queue_engine.domain.errors import GitHubError
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Engine
from queue_engine.effects.record import PULL_REQUEST_JOB
from queue_engine.handlers.reconciler import Reconciler


def a_job(request: dict[str, Any]) -> Job:
    """A job, as far as its handler looks at it."""
    return cast(Job, SimpleNamespace(request=request))


async def sweep_repository(engine: Engine, repository: Repository) -> None:
    """Sweep one repository, and follow up what is found in it. Raises at the end what single parts raised."""
    sweeper = Reconciler(engine, interval=timedelta(minutes=10))
    await sweeper.sweep_repository(a_job(asdict(repository)))
    async with engine.store.transaction() as tx:
        claimed = await tx.jobs.claim_some(1000, owner="t", now=engine.clock.now(), lease=timedelta(minutes=1))
        await tx.jobs.finish(claimed)
    failed = list[Exception]()
    for job in claimed:
        try:
            if job.kind == PULL_REQUEST_JOB:
                await sweeper.sweep_pull_request(job)
        except GitHubError as error:
            failed.append(error)
    if failed:
        raise ExceptionGroup("parts of the sweep failed", failed)
