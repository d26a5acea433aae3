"""Create the labels for IMQ that a repository lacks, at the first sweep after IMQ was installed or configured.

In a large installation that is the first sweep after somebody used a pull request of the repository.

IMQ does not create a label again that a maintainer deleted or renamed. Where GitHub does not let IMQ create it, IMQ
says so in its log. It tries again a day later, or when the installation has new permissions.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import asdict
from datetime import timedelta

import structlog

from queue_engine.core.concurrency.request_context import RequestPriority, working
from queue_engine.core.jobs.job_store import Job
from queue_engine.domain.errors import Forbidden, Invalid, NotFound, naming
from queue_engine.domain.model import Repository
from queue_engine.effects.context import Change, Engine
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.labels")

LABEL_JOB = "create_label"
"""Kind of the job that creates one label."""

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
            await change.tx.jobs.enqueue_once(
                kind=LABEL_JOB,
                request={"repository": asdict(repository), "label": label, "description": description},
                process_id=f"{LABEL_JOB}:{repository.id}:{_digest(label)}",
                now=change.now,
                priority=-1,
            )
    await change.tx.sweeps.done(_requested(repository), change.now)


async def labels_requested(tx: Transaction, repository: Repository) -> bool:
    """Return whether the labels of this repository were ever requested."""
    return await tx.sweeps.last(_requested(repository)) is not None


class RepositoryLabels:
    """Handles the jobs that `request_labels` enqueues."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

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
        async with self._engine.change() as change:
            await change.tx.sweeps.done(part, change.now)


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
