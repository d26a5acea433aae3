"""P3: process labels in the order in which their webhooks came, also while GitHub's reads lag.

IMQ repeats a read that does not show a label yet, after seconds. Until then it postpones the later labels on the same
base branch: otherwise a later one would land first. Each wait ends at an instant, so that neither a dead process nor a
lost label delays the next one for longer (P5).

The first label is that of the first stored webhook: GitHub promises no order of deliveries, and its times have whole
seconds. IMQ reads a label that is not shown at most four times. If GitHub fails for longer, the label keeps its rank,
but an entry that is being processed by then remains the front. Two processes that read two labels at once may differ
by the duration of one read.
"""

from datetime import timedelta

from queue_engine.core.timing import backoff
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.errors import LabelOrderError, ReadLagError, StaleRead
from queue_engine.domain.known_facts import Fact, HeldLabel, of_labels
from queue_engine.domain.model import Repository
from queue_engine.domain.webhook_event import WebhookEvent
from queue_engine.effects.context import Engine

_READ = timedelta(seconds=1)
"""How long the next read of the earlier label may take, in another process."""

_LONGEST = backoff.longest(OUTDATED, 3) + _READ


async def await_earlier(engine: Engine, repository: Repository, webhook: WebhookEvent) -> None:
    """Raise LabelOrderError while an earlier label on the same base branch is postponed.

    This holds after any number of own waits, even before the last read: otherwise two labels whose last reads are due
    within the jitter of their waits would be reordered. Such waits end nevertheless, see `postpone`.
    """
    subject, now = of_labels(webhook.branch or ""), engine.clock.now()
    async with engine.store.reading() as tx:
        known = (await tx.known.about(repository.id, [subject], since=now - _LONGEST)).get(subject, [])
    labels = (each.statement for each in known if isinstance(each.statement, HeldLabel))
    until = max((each.until for each in labels if each.order < webhook.order), default=now)
    if until > now:
        raise LabelOrderError("an earlier label is answered first", retry_after=until - now)


async def postpone(
    engine: Engine, repository: Repository, webhook: WebhookEvent, why: StaleRead | ReadLagError | LabelOrderError
) -> None:
    """Store that a label is not judged yet, and until when later labels wait.

    Each label does so at most as often as IMQ repeats a read, so that no label waits for it longer than that (P5).
    """
    if OUTDATED.exhausted(webhook.tries):
        return
    async with engine.change() as change:
        until = change.now + _answered_after(webhook, why)
        fact = Fact(subject=of_labels(webhook.branch or ""), statement=HeldLabel(order=webhook.order, until=until))
        await change.tx.known.record(repository.id, [fact], change.now)


def _answered_after(webhook: WebhookEvent, why: StaleRead | ReadLagError | LabelOrderError) -> timedelta:
    """Return after how long the label is judged, or its read repeated, at the latest."""
    match why:
        case LabelOrderError():
            return why.retry_after
        case ReadLagError():
            return why.retry_after + _READ
        case StaleRead():
            return backoff.longest(OUTDATED, webhook.outdated) + _READ
