"""P3: process labels in the order in which their webhooks came, also while GitHub's reads lag or fail.

IMQ repeats a read that does not show a label yet, or that failed, after seconds. Until then, and while another process
answers the earlier label, it postpones the later ones on the same base branch: otherwise a later one would land first.
A killed process leases its job until the lease ends, and no process can tell a killed one from a slow one. Such waits
last a minute at most: no label stops its queue (P5). After that the earlier label keeps its rank, but an entry that is
being processed by then remains the front.

The first label is that of the first stored webhook: GitHub promises no order of deliveries, and its times have whole
seconds.
"""

from collections.abc import Collection
from datetime import timedelta

from queue_engine.core.jobs.job import Job, JobStatus
from queue_engine.core.timing import backoff
from queue_engine.domain.errors import LabelOrderError
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import has_label
from queue_engine.domain.webhooks import WEBHOOK_JOB
from queue_engine.effects.context import Engine

EARLIER_LABEL = "earlier_label"
"""The reason of a hold, which the job of a label counts, while an earlier label is answered."""

_AGAIN = timedelta(seconds=1)
"""When IMQ reads again whether an earlier label is answered."""

_MOST_WAITS = 60
"""How often it does so: twice the lease of a killed process."""

_SOON = backoff.longest(backoff.REQUEST, 2)
"""A failed job that is tried again by then has not given up: three of a job's waits are that short."""


async def await_earlier(
    engine: Engine,
    repository: Repository,
    branch: str,
    labels: Collection[str],
    *,
    order: int,
    awaited: int,
    answered: Collection[int] = (),
) -> None:
    """Raise LabelOrderError while one of these labels on a base branch, stored before `order`, is not answered.

    `awaited` is how often the later label has waited so. `answered` are those that this process has answered, whose
    jobs it may not have stored as done yet.
    """
    if awaited >= _MOST_WAITS:
        return
    due = engine.clock.now() + _SOON
    async with engine.store.reading() as tx:
        earlier = await tx.jobs.unanswered_before(
            order, WEBHOOK_JOB, f"{repository.id}:", {"kind": "labeled", "branch": branch}, due=due
        )
    unanswered = [job for job in earlier if not _is_answered(job, answered, engine.owner)]
    if any(has_label({job.request["label"]}, labels) for job in unanswered):
        raise LabelOrderError("an earlier label is answered first", retry_after=_AGAIN)


def _is_answered(job: Job, answered: Collection[int], owner: str) -> bool:
    """Whether the process `owner` answered the label in this run of its job."""
    return job.status is JobStatus.IN_PROGRESS and job.owner == owner and job.seq in answered
