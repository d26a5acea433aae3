"""P4: the labels by which a pull request is queued, as far as they count.

The outbox holds which labels GitHub is to show, on or off, until GitHub has confirmed each. Until then the wanted state
counts and not the one that GitHub shows: a label that IMQ is to remove is no consent, one that IMQ is to set is not
missing. Every path that takes a label for consent takes `effective_labels`.

Of a queued pull request only labels count that somebody with the right to queue vouched for. Other trigger labels do
not hold it in the queue, and a new configuration does not remove it. After a dequeue only a label counts that somebody
has set since: IMQ's removal may fail for hours, and GitHub shows the label meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy, has_label
from queue_engine.store import Store, Transaction

_CLOCK_SKEW = timedelta(minutes=1)
"""How far IMQ's clock may differ from GitHub's. It matters only once the removal was delivered: then a label that is
present has been set since, whatever the clocks say."""


@dataclass(frozen=True, slots=True)
class LabelStates:
    """The wanted labels of a pull request that GitHub has not confirmed, and when the pull request was dequeued or
    refused last."""

    wanted: Mapping[str, bool] = field(default_factory=dict)
    dequeued_at: datetime | None = None

    def applied(self, labels: Iterable[str]) -> frozenset[str]:
        """These labels of GitHub's, as they are once everything wanted was delivered."""
        kept = {label for label in labels if not has_label([label], self.wanted)}
        return frozenset(kept | {label for label, on in self.wanted.items() if on})

    def consents(self, label: str, set_at: datetime | None) -> bool:
        """Whether a label that was set then is consent given after the last dequeue.

        GitHub's times have whole seconds: while its removal is undelivered, a label of the same second is the one to be
        removed.
        """
        if self.dequeued_at is None:
            return True
        if set_at is None:
            return False
        removed = any(not on and has_label([label], [wanted]) for wanted, on in self.wanted.items())
        return set_at > (self.dequeued_at if removed else self.dequeued_at - _CLOCK_SKEW)


async def label_states(tx: Transaction, repository_id: int, number: int) -> LabelStates:
    """What IMQ knows of the labels of this pull request beside GitHub's reads."""
    wanted = await tx.outbox.wanted_labels(repository_id, number)
    return LabelStates(wanted, await tx.timeline.dequeued_at(repository_id, number))


async def queued_by(
    tx: Transaction, repository_id: int, number: int, trusted: Iterable[str], policy: Policy
) -> frozenset[str]:
    """Those of the labels vouched for by which it was queued: that queue, or did before the configuration changed."""
    trusted = tuple(trusted)
    known = frozenset(label for label in trusted if policy.has_trigger_label([label]))
    if known or not trusted:
        return known
    former = await tx.timeline.queued_by(repository_id, number)
    return frozenset(label for label in trusted if has_label([label], former))


async def effective_labels(
    store: Store, repository: Repository, pull: PullRequest, trusted: Iterable[str], policy: Policy
) -> PullRequest:
    """The queued pull request, just read, with the labels that count: of those that queue, or name a method,
    no other than were vouched for.

    Nothing is vouched for where that is not known, of one that was queued by an older IMQ: all its labels count then.
    """
    if not pull.open:
        return pull
    trusted = tuple(trusted)
    async with store.reading() as tx:
        states = LabelStates(await tx.outbox.wanted_labels(repository.id, pull.number))
        queuing = await queued_by(tx, repository.id, pull.number, trusted, policy)
    labels = states.applied(pull.labels)
    if trusted:
        guarded = (*policy.trigger_labels, *policy.method_labels)
        counted = {label for label in labels if not has_label([label], guarded) or has_label([label], trusted)}
        # By whatever name the label goes in the configuration now.
        labels = frozenset(counted | {policy.trigger_label} if has_label(labels, queuing) else counted)
    return replace(pull, labels=labels)
