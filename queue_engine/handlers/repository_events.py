"""Handle events of repositories and installations: renames, archives, labels that IMQ needs, permissions, teams.

A repository's id is its identity: entries survive a rename. A repository that its installation no longer lists is read
by its id. While it is archived or gone its queues are paused, within the time limit of all holds (P5).

IMQ creates the labels that a repository lacks at the first sweep after it was installed or configured. In a large
installation that is the first sweep after somebody used a pull request of the repository. IMQ does not create a label
again that a maintainer deleted or renamed. Where GitHub does not let IMQ create it, IMQ
says so in its log. It tries again a day later, or when the installation has new permissions.

An entry that changes workflows while IMQ lacks the permission is blocked: it is `pending`, and its queue proceeds
without it. IMQ learns from GitHub's webhook that a maintainer accepted the permission.

GitHub refuses comments, check runs and labels without a permission, and all requests to a suspended installation. Such
writes are held, or dead letters after days. IMQ sends them again by itself once GitHub may accept them.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, replace
from datetime import timedelta

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job import Job
from queue_engine.domain.departure import DequeueReason
from queue_engine.domain.errors import Disorder, Forbidden, GitHubError, Invalid, NotFound, Refused, naming
from queue_engine.domain.model import Queue, Repository
from queue_engine.domain.reasons import Reason, reason_of
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine, EngineHandler
from queue_engine.effects.renames import is_gone, remember_name
from queue_engine.store import Transaction
from queue_engine.store.known import changed_teams
from queue_engine.store.outbox.items import OUTBOX_JOB

_log = structlog.get_logger("imq.repositories")

MISSING_JOB = "sweep_missing_repository"
"""Kind of the job that reads a repository that its installation does not list."""

_SETTLING = timedelta(minutes=1)
"""How long IMQ waits before that read: GitHub reports a transfer by several webhooks, and lists lag behind."""

_MARGIN = timedelta(days=1)
"""How much longer than a hold the pause of an archived repository lasts, so that sweeps end the hold before."""
_ARCHIVED = Refused("the repository is archived", disorder=Disorder.ARCHIVED)


async def enqueue_examination(change: Change, repository: Repository) -> None:
    """Enqueue the job that reads a repository with entries that its installation does not list."""
    process_id = f"{MISSING_JOB}:{repository.id}"
    if not await change.tx.jobs.unfinished(process_id):
        request = {"repository_id": repository.id}
        await change.enqueue(MISSING_JOB, request, repository.id, at=change.now + _SETTLING)


async def examine_repository(engine: Engine, job: Job) -> None:
    """Pause the queues of a repository that is archived or gone until it is back; otherwise store its present name.

    A webhook may have reported a transfer meanwhile, so the read uses the repository's present installation. Raises
    GitHubError, and StaleRecord if an entry changed meanwhile.
    """
    repository_id = job.request["repository_id"]
    async with engine.store.reading() as tx:
        repository = next((each for each in await tx.repositories.with_work() if each.id == repository_id), None)
    if repository is None:
        return
    try:
        found = await engine.github.repository(repository)
    except (NotFound, Forbidden, Refused) as error:
        if isinstance(error, Refused) and not await is_gone(engine, repository, error):
            raise
        await _follow(engine, repository, Refused(error.message, disorder=Disorder.GONE))
        return
    await _follow(engine, repository, _ARCHIVED if found.archived else None)
    if (found.owner, found.name) != (repository.owner, repository.name):
        await remember_name(engine, replace(repository, owner=found.owner, name=found.name))


async def _follow(engine: Engine, repository: Repository, refused: Refused | None) -> None:
    """Pause the queues of a repository that is out of order, resume those of another, or end their wait (P5)."""
    queues = await engine.store.read(lambda tx: tx.queues.of_repository(repository.id))
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
    for run in await change.tx.runs.of_repository(repository.id):
        if run.github_failing_since is not None:
            await change.tx.runs.save(run.without_failures())
    for entry in await change.tx.entries.of_repository(repository.id):
        if entry.run.github_failing_since is not None:
            await change.tx.entries.save(replace(entry, run=entry.run.without_failures()))
    for queue in await change.tx.queues.of_repository(repository.id):
        if (pause := queue.pause(Reason.GITHUB_REFUSES)) is not None:
            await change.tx.pauses.lift(queue.id, Reason.GITHUB_REFUSES, now=change.now)
            data = {"by": None, "detail": pause.detail, "until": None}
            await change.record("resumed", queue, reason=Reason.GITHUB_REFUSES, data=data)
    return await change.tx.outbox.release(repository.id, change.now)


async def _dequeue_all(engine: Engine, repository: Repository, reason: Reason, detail: str | None) -> None:
    """Dequeue all entries, except one with a merge request, whose pass handles it."""
    queues = await engine.store.read(lambda tx: tx.queues.of_repository(repository.id))
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


LABEL_JOB = "create_label"

COLOR = "1f6feb"
TRIGGER = "Queue this pull request: IMQ tests and merges it"
TESTING = "IMQ sets this label while it tests the pull request"

_AGAIN = timedelta(days=1)


async def request_labels(
    change: Change, repository: Repository, triggers: Iterable[str], testing: Iterable[str] = ()
) -> None:
    """Enqueue the job of each trigger label and testing label that IMQ has not created or found yet."""
    for label, description in (dict.fromkeys(testing, TESTING) | dict.fromkeys(triggers, TRIGGER)).items():
        if await change.tx.sweeps.last(_created(repository, label)) is not None:
            continue
        refused = await change.tx.sweeps.last(_refused(repository, label))
        if refused is None or refused + _AGAIN <= change.now:
            request = {"repository": asdict(repository), "label": label, "description": description}
            await change.enqueue(LABEL_JOB, request, repository.id, _digest(label), priority=-1, once=True)
    await change.tx.sweeps.done(_requested(repository), change.now)


async def labels_requested(tx: Transaction, repository: Repository) -> bool:
    """Return whether the labels of this repository were ever requested."""
    return await tx.sweeps.last(_requested(repository)) is not None


class RepositoryLabels(EngineHandler):
    """Handles the jobs that `request_labels` enqueues."""

    async def create(self, job: Job) -> None:
        """Create one label, unless the repository has it. The job may run twice. Raises GitHubError."""
        repository, label = Repository(**job.request["repository"]), job.request["label"]
        description = job.request.get("description", TRIGGER)
        part, names = _created(repository, label), {"repository": repository.full_name, "label": label}
        try:
            with working(RequestPriority.BACKGROUND), naming(f"label {label} of {repository.full_name}"):
                if await self._engine.github.create_label(repository, label, COLOR, description):
                    _log.info("label_created", **names)
        except (Forbidden, Invalid, NotFound) as refusal:
            part = _refused(repository, label)
            advice = f"create the label {label} in the repository, or grant IMQ's App the permission issues: write"
            _log.warning("label_not_created", **names, error=refusal.message, advice=advice)
        await self._engine.write(lambda change: change.tx.sweeps.done(part, change.now))


def _requested(repository: Repository) -> str:
    return f"labels:{repository.id}"


def _created(repository: Repository, label: str) -> str:
    return f"label:{repository.id}:{_digest(label)}"


def _refused(repository: Repository, label: str) -> str:
    return f"{refused_labels(repository.installation_id)}{repository.id}:{_digest(label)}"


def _digest(label: str) -> str:
    """Shorten a label's name, in any case, for the column `part`."""
    return hashlib.sha256(label.casefold().encode()).hexdigest()[:16]


def refused_labels(installation_id: int) -> str:
    """Return how the parts of labels begin that GitHub refused to create for this installation."""
    return f"refused:{installation_id}:"


_MOST_RESENT = 1_000
"""Dead letters that IMQ considers; an operator may retry older ones."""


async def accepted_again(engine: Engine, installation_id: int) -> None:
    """Resume what GitHub refused to this installation, unblock its entries, and send its refused writes again.

    A token keeps the permissions that it was made with, so that this process fetches a new one. The next sweep creates
    the labels that GitHub refused to create. Raises StaleRecord when an entry changed meanwhile.
    """
    engine.github.forget_token(installation_id)
    async with engine.change() as change:
        queues = [each for each in await change.tx.queues.all() if each.repository.installation_id == installation_id]
        for queue in queues:
            for entry in await change.tx.entries.of_queue(queue.id):
                if entry.blocked_until is not None and entry.blocked_for is None:
                    await change.tx.entries.save(replace(entry, blocked_until=None))
                    await change.tx.queues.wake(queue.id, change.now)
                    _log.info("unblocked", repository=entry.repository.full_name, number=entry.number)
        own = {each.repository.id: each.repository for each in queues}
        released = [await _resume(change, repository, queues) for _, repository in sorted(own.items())]
        letters = await change.tx.dead_letters.list(_MOST_RESENT, job_type=OUTBOX_JOB, retryable=True)
        refused = [each.payload for each in letters if each.payload.get("repository_id") in own]
        sent = [await change.tx.outbox.requeue(payload, change.now) for payload in refused]
        await change.tx.sweeps.forget(refused_labels(installation_id))
        await change.tx.sweeps.done(changed_teams(installation_id), change.now)
    if count := sum(sent) + sum(released):
        _log.info("refused_writes_sent_again", installation=installation_id, count=count)


async def _resume(change: Change, repository: Repository, queues: Sequence[Queue]) -> int:
    """Resume a repository; one that was found archived or gone is read first: how many writes are sent again."""
    pauses = [each.pause(Reason.GITHUB_REFUSES) for each in queues if each.repository.id == repository.id]
    if any(pause is not None and pause.until is not None for pause in pauses):
        await enqueue_examination(change, repository)
        return 0
    return await resume_refused(change, repository)


async def teams_changed(engine: Engine, installation_id: int) -> None:
    """Have the members of this installation's teams read again."""
    await engine.write(lambda change: change.tx.sweeps.done(changed_teams(installation_id), change.now))
