"""P4: a label queues a pull request once. After a dequeue only a label that somebody has set since is consent.

IMQ removes the label when a pull request leaves its queue, or is refused. That removal may fail for hours, and GitHub
shows the label meanwhile: to the reconciler, after a restart, when the pull request is reopened or becomes ready again.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from queue_engine.store import Transaction
from queue_engine.store.outbox.outbox import OutboxKind

_CLOCK_SKEW = timedelta(minutes=1)
"""How far IMQ's clock may differ from GitHub's. It matters only once the removal was delivered: then a label that is
present has been set since, whatever the clocks say."""


@dataclass(frozen=True, slots=True)
class DequeueHistory:
    """When a pull request was dequeued or refused last, and whether the removal of its label is undelivered."""

    at: datetime
    removal_pending: bool

    def precedes(self, labelled_at: datetime | None) -> bool:
        """Whether a label of that time is consent given after the dequeue. GitHub's times have whole seconds.

        While the removal is undelivered, the label of the same second counts as the one to be removed.
        """
        if labelled_at is None:
            return False
        return labelled_at > (self.at if self.removal_pending else self.at - _CLOCK_SKEW)


async def last_dequeue(tx: Transaction, repository_id: int, number: int) -> DequeueHistory | None:
    """The last dequeue or refusal of this pull request; None if there was none."""
    at = await tx.timeline.dequeued_at(repository_id, number)
    if at is None:
        return None
    return DequeueHistory(at, await tx.outbox.exists(OutboxKind.LABEL_OFF, repository_id, number))
