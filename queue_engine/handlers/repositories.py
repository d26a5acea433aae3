"""Handle repositories that are renamed, transferred, archived, or removed from the installation.

A repository's id is its identity: entries survive a rename. A repository that its installation no longer lists is read
by its id. While it is archived or gone its queues are paused, within the time limit of all holds (P5).
"""

from dataclasses import replace
from datetime import timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import Disorder, Forbidden, GitHubError, NotFound, Refused
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.reasons import Reason, reason_of
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.repository_names import remember_name

_log = structlog.get_logger("imq.repositories")

MISSING_JOB = "sweep_missing_repository"
"""Kind of the job that reads a repository that its installation does not list."""

_SETTLING = timedelta(minutes=1)
"""How long IMQ waits before that read: GitHub reports a transfer by several webhooks, and lists lag behind."""

_MARGIN = timedelta(days=1)
"""How much longer than a hold the pause of an archived repository lasts, so that sweeps end the hold before."""
_NOT_FOUND = 404
_ARCHIVED = Refused("the repository is archived", disorder=Disorder.ARCHIVED)


async def enqueue_examination(change: Change, repository: Repository) -> None:
    """Enqueue the job that reads a repository with entries that its installation does not list."""
    process_id = f"{MISSING_JOB}:{repository.id}"
    if not await change.tx.jobs.unfinished(process_id):
        await change.tx.jobs.enqueue(
            kind=MISSING_JOB,
            request={"repository_id": repository.id},
            process_id=process_id,
            now=change.now,
            not_before=change.now + _SETTLING,
        )


async def examine_repository(engine: Engine, job: Job) -> None:
    """Pause the queues of a repository that is archived or gone until it is back; otherwise store its present name.

    A webhook may have reported a transfer meanwhile, so the read uses the repository's present installation. Raises
    GitHubError, and StaleRecord if an entry changed meanwhile.
    """
    repository_id = job.request["repository_id"]
    async with engine.store.reading() as tx:
        repository = next((each for each in await tx.queues.with_work() if each.id == repository_id), None)
    if repository is None:
        return
    try:
        found = await engine.github.repository(repository)
    except (NotFound, Forbidden, Refused) as error:
        if isinstance(error, Refused) and not await _is_gone(engine, repository, error):
            raise
        await _follow(engine, repository, Refused(error.message, disorder=Disorder.GONE))
        return
    await _follow(engine, repository, _ARCHIVED if found.archived else None)
    if (found.owner, found.name) != (repository.owner, repository.name):
        await remember_name(engine, replace(repository, owner=found.owner, name=found.name))


async def _is_gone(engine: Engine, repository: Repository, error: Refused) -> bool:
    """Whether the installation's own list, which GitHub answers, lacks a repository that GitHub does not show."""
    if error.disorder is Disorder.GONE:
        return True
    if error.status != _NOT_FOUND:
        return False
    listed = await engine.github.repositories(repository.installation_id)
    return repository.id not in {each.id for each in listed}


async def _follow(engine: Engine, repository: Repository, refused: Refused | None) -> None:
    """Pause the queues of a repository that is out of order, resume those of another, or end their wait (P5)."""
    async with engine.store.reading() as tx:
        queues = await tx.queues.of_repository(repository.id)
    paused = [(queue, pause) for queue in queues if (pause := queue.pause(Reason.GITHUB_REFUSES)) and pause.until]
    now = engine.clock.now()
    if refused is not None and any(pause.has_ended(now + _MARGIN) for _, pause in paused):
        await _dequeue_all(engine, repository, reason_of(refused), refused.message)
    if (refused is not None) == bool(paused):
        return
    limits = {queue.id: (await _policy(engine, queue)).timeouts.hold for queue in queues}
    async with engine.change() as change:
        if refused is None:
            await resume_refused(change, repository)
            return
        for queue in queues:
            await record.pause_refused(change, queue.id, refused, now + limits[queue.id] + _MARGIN)
            await change.tx.queues.wake(queue.id, now)


async def resume_refused(change: Change, repository: Repository) -> int:
    """Resume the queues of a repository that GitHub refused as a whole, and send what waited for that: how many.

    The count of failures of its entries starts from zero: their waits were no outage. Raises StaleRecord.
    """
    for entry in await change.tx.entries.of_repository(repository.id):
        if entry.run.github_failing_since is not None:
            await change.tx.entries.save(replace(entry, run=entry.run.without_failures()))
    for run in await change.tx.runs.of_repository(repository.id):
        if run.github_failing_since is not None:
            await change.tx.runs.save(run.without_failures())
    for queue in await change.tx.queues.of_repository(repository.id):
        if (pause := queue.pause(Reason.GITHUB_REFUSES)) is not None:
            await change.tx.pauses.lift(queue.id, Reason.GITHUB_REFUSES, now=change.now)
            data = {"by": None, "detail": pause.detail, "until": None}
            await change.record("resumed", queue, reason=Reason.GITHUB_REFUSES, data=data)
    return await change.tx.outbox.release(repository.id, change.now)


async def _dequeue_all(engine: Engine, repository: Repository, reason: Reason, detail: str | None) -> None:
    """Dequeue all entries, except one with a merge request, whose pass handles it."""
    async with engine.store.reading() as tx:
        queues = await tx.queues.of_repository(repository.id)
    policies = {queue.id: await _policy(engine, queue) for queue in queues}
    async with engine.change() as change:
        entries = [e for e in await change.tx.entries.of_repository(repository.id) if e.run.merge_requested_at is None]
        why = DequeueReason(reason, detail)
        await record.dequeue_together(change, entries, why, lambda entry: policies.get(entry.queue_id, Policy()))
    _log.warning("dequeued", repository=repository.full_name, reason=reason.value, numbers=[e.number for e in entries])


async def _policy(engine: Engine, queue: Queue) -> Policy:
    """Load the policy of the queue's branch, or the default policy if it can no longer be read."""
    try:
        return await engine.policies.of(queue.repository, queue.base_branch)
    except GitHubError:
        return Policy()
