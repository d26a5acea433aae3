"""P3: process labels in the order in which their webhooks came, also while GitHub's reads lag.

A read that does not show a label yet is asked again after seconds. Until then IMQ postpones the labels that came
after it on the same base branch: otherwise the later one would land first. Each wait has its instant, so that neither
a dead process nor a lost label holds up the next one (P5).

The first label is the one whose webhook IMQ stored first: GitHub promises no order of deliveries, and its times have
whole seconds. A label that reads do not show is asked for at most four times. If GitHub is in trouble for longer, the
label keeps its rank, but an entry that is being processed by then stays in front. Two processes that read two labels
at once may differ by the time of one read.
"""

from datetime import datetime, timedelta

from queue_engine.core.timing import backoff
from queue_engine.core.timing.backoff import OUTDATED
from queue_engine.domain.errors import LabelOrderError, ReadLagError, StaleRead
from queue_engine.domain.known_facts import Fact, HeldLabel, Known, of_labels
from queue_engine.domain.model import Repository
from queue_engine.domain.webhook_event import WebhookEvent
from queue_engine.effects.context import Engine

_READ = timedelta(seconds=1)
"""How long the next read of the earlier label may take, in another process."""

_LONGEST = backoff.longest(OUTDATED, 3) + _READ


async def await_earlier(engine: Engine, repository: Repository, webhook: WebhookEvent) -> None:
    """Raise LabelOrderError while a label that came before on the same base branch is postponed.

    However often it waited itself, its own last read included: otherwise two labels whose last reads are due within
    the jitter of their waits would change places. Such waits end all the same, see `postpone`.
    """
    subject, now = of_labels(webhook.branch or ""), engine.clock.now()
    async with engine.store.reading() as tx:
        known = (await tx.known.about(repository.id, [subject], since=now - _LONGEST)).get(subject, [])
    until = max(_earlier(known, webhook.order), default=now)
    if until > now:
        raise LabelOrderError("an earlier label is answered first", delay=until - now)


async def postpone(
    engine: Engine, repository: Repository, webhook: WebhookEvent, why: StaleRead | ReadLagError | LabelOrderError
) -> None:
    """Store that a label is not answered yet, and until when those that came after it wait.

    Each label does so at most as often as a read is asked again, so that nobody waits for it longer than that (P5).
    """
    if OUTDATED.exhausted(webhook.tries):
        return
    async with engine.change() as change:
        until = change.now + _answered_after(webhook, why)
        fact = Fact(subject=of_labels(webhook.branch or ""), statement=HeldLabel(order=webhook.order, until=until))
        await change.tx.known.record(repository.id, [fact], change.now)


def _answered_after(webhook: WebhookEvent, why: StaleRead | ReadLagError | LabelOrderError) -> timedelta:
    """After how long the label is answered, or its read has been asked again at the latest."""
    match why:
        case LabelOrderError():
            return why.delay
        case ReadLagError():
            return why.retry_after + _READ
        case StaleRead():
            return backoff.longest(OUTDATED, webhook.outdated) + _READ


def _earlier(known: list[Known], order: int) -> list[datetime]:
    """Until when those wait that came after a label which came before this one."""
    return [
        one.statement.until for one in known if isinstance(one.statement, HeldLabel) and one.statement.order < order
    ]
