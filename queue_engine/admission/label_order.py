"""P3: process labels in the order in which their webhooks came, also while GitHub's reads lag.

IMQ repeats a read that does not show a label yet, after seconds. Until then it postpones the later labels on the same
base branch: otherwise a later one would land first. Each wait ends at an instant, so that no lost label delays the next
one for longer (P5).

IMQ also postpones a label while another process answers an earlier one, or its job is tried again within seconds. A
killed process leases its job until the lease ends, and no process can tell a killed one from a slow one. Such waits
last a minute at most: a label whose job ends each process that runs it does not stop its queue (P5). After that the
earlier label keeps its rank, but an entry that is being processed by then remains the front.

The first label is that of the first stored webhook: GitHub promises no order of deliveries, and its times have whole
seconds.
"""

from collections.abc import Collection
from datetime import timedelta

from queue_engine.core.jobs.job import Job, JobStatus
from queue_engine.core.timing import backoff
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.errors import LabelOrderError, ReadLagError, StaleRead
from queue_engine.domain.known_facts import Fact, HeldLabel, of_labels
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import has_label
from queue_engine.domain.webhooks import WEBHOOK_JOB, LabelRequest
from queue_engine.effects.context import Engine

EARLIER_LABEL = "earlier_label"
"""The reason of a hold, which the job of a label counts, while an earlier label is answered."""

_READ = timedelta(seconds=1)
"""How long the next read of the earlier label may take, in another process."""

_LONGEST = backoff.longest(OUTDATED, 3) + _READ

_AGAIN = timedelta(seconds=1)
"""When IMQ reads again whether another process has answered an earlier label."""

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
    own: str | None = None,
) -> None:
    """Raise LabelOrderError while one of these labels on a base branch, stored before `order`, is not answered.

    `awaited` is how often the later label has waited so. The labels that the process `own` answers have an order of
    their own, see `KeyOrder`.

    This holds after any number of own waits, even before the last read: otherwise two labels whose last reads are due
    within the jitter of their waits would be reordered. Such waits end nevertheless, see `postpone`.
    """
    subject, now = of_labels(branch), engine.clock.now()
    async with engine.store.reading() as tx:
        known = (await tx.known.about(repository.id, [subject], since=now - _LONGEST)).get(subject, [])
        statements = [each.statement for each in known if isinstance(each.statement, HeldLabel)]
        held = [each for each in statements if each.order < order and each.until > now]
        earlier = await tx.jobs.unanswered_before(
            order, WEBHOOK_JOB, f"{repository.id}:", {"kind": "labeled", "branch": branch}, due=now + _SOON
        )
    held_orders = {each.order for each in held}
    unanswered = [job for job in earlier if job.seq not in held_orders and not _is_own(job, own)]
    waits = awaited < _MOST_WAITS and any(has_label({job.request["label"]}, labels) for job in unanswered)
    until = max([each.until for each in held] + [now + _AGAIN] * waits, default=now)
    if until > now:
        raise LabelOrderError("an earlier label is answered first", retry_after=until - now)


def _is_own(job: Job, own: str | None) -> bool:
    """Whether the process `own` runs the job."""
    return job.status is JobStatus.IN_PROGRESS and job.owner == own


async def postpone(engine: Engine, webhook: LabelRequest, why: StaleRead | ReadLagError | LabelOrderError) -> None:
    """Store that a label is not judged yet, and until when later labels wait.

    Each label does so at most as often as IMQ repeats a read, so that no label waits for it longer than that (P5).
    """
    if OUTDATED.exhausted(webhook.attempt.tries):
        return
    async with engine.change() as change:
        until = change.now + _answered_after(webhook, why)
        statement = HeldLabel(order=webhook.attempt.order, until=until)
        fact = Fact(subject=of_labels(webhook.branch), statement=statement)
        await change.tx.known.record(webhook.repository_id, [fact], change.now)


def _answered_after(webhook: LabelRequest, why: StaleRead | ReadLagError | LabelOrderError) -> timedelta:
    """Return after how long the label is judged, or its read repeated, at the latest."""
    match why:
        case LabelOrderError():
            return why.retry_after
        case ReadLagError():
            return why.retry_after + _READ
        case StaleRead():
            return backoff.longest(OUTDATED, webhook.attempt.outdated) + _READ
