"""The reconciliation sweep: at start and every ten minutes GitHub is asked for what webhooks may have failed to say.

It finds labels, closes, pushes and label removals. Checks whose webhooks never came are found by the entry's own
slow looks.
"""

from datetime import datetime, timedelta

import structlog

from queue_engine.admission import Knock, admit
from queue_engine.core.jobs import Job
from queue_engine.engine import Engine
from queue_engine.model import Repository
from queue_engine.review import review

_log = structlog.get_logger("imq.sweep")

SWEEP_JOB = "sweep"
"""Kind of the job that lists the repositories and asks for each to be swept."""

REPOSITORY_JOB = "sweep_repository"
"""Kind of the job that sweeps one repository."""

_KEEP_DELIVERIES = timedelta(hours=72)
_KEEP_LETTERS = timedelta(days=30)


class Sweeper:
    """Asks for a sweep at start and every `interval`, and carries the sweeps out."""

    def __init__(self, engine: Engine, *, interval: timedelta) -> None:
        self._engine = engine
        self._interval = interval
        self._due = engine.clock.now()
        self._seen: dict[tuple[int, int], datetime] = {}

    async def run_due(self) -> bool:
        """Ask for a sweep if one is due; whether it was."""
        if self._engine.clock.now() < self._due:
            return False
        self._due = self._engine.clock.now() + self._interval
        await self.request()
        return True

    async def next_due(self) -> datetime | None:
        """When the next sweep is due."""
        return self._due

    async def request(self) -> None:
        """Store the wish for a sweep of everything; one that waits already is enough."""
        async with self._engine.change() as change:
            await change.tx.jobs.enqueue(kind=SWEEP_JOB, request={}, process_id=SWEEP_JOB, now=change.now)

    async def sweep(self, job: Job) -> None:
        """List the repositories of all installations and ask for each to be swept; drop what is long done with."""
        repositories = await self._engine.github.repositories()
        async with self._engine.change() as change:
            for repository in repositories:
                await change.tx.jobs.enqueue(
                    kind=REPOSITORY_JOB,
                    request={
                        "id": repository.id,
                        "owner": repository.owner,
                        "name": repository.name,
                        "installation_id": repository.installation_id,
                    },
                    process_id=f"{REPOSITORY_JOB}:{repository.id}",
                    now=change.now,
                )
            await change.tx.deliveries.purge(change.now - _KEEP_DELIVERIES)
            await change.tx.outbox.purge(change.now - _KEEP_LETTERS)

    async def sweep_repository(self, job: Job) -> None:
        """Compare one repository's labelled pull requests with its queues, and follow up each difference."""
        engine, repository = self._engine, Repository(**job.request)
        labelled = await engine.github.labelled_pull_requests(repository, engine.policy.trigger_label)
        async with engine.change() as change:
            await change.tx.queues.refresh_repository(repository)
            entries = await change.tx.entries.of_repository(repository.id)
            queued = {entry.number for entry in entries}
            new = [
                item.number
                for item in labelled
                if item.number not in queued and await change.tx.held.find(repository.id, item.number) is None
            ]
            for queue_id in {entry.queue_id for entry in entries}:
                await change.tx.queues.wake(queue_id, change.now)
        for number in new:
            await admit(engine, Knock(repository, number, by=None, head_sha=None))
        stamps = {item.number: item.updated_at for item in labelled}
        for number in sorted(queued):
            key = (repository.id, number)
            if number in stamps and self._seen.get(key) == stamps[number]:
                continue
            await review(engine, repository, number)
            if number in stamps:
                self._seen[key] = stamps[number]
        self._seen = {k: v for k, v in self._seen.items() if k[0] != repository.id or k[1] in stamps}
