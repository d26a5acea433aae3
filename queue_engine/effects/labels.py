"""P4: find which labels of a pull request count as consent.

The outbox holds the wanted state of each label, on or off, until GitHub has confirmed it. Until then the wanted state
counts, and not the one that GitHub shows. A label that IMQ is to remove is no consent, and a label that IMQ is to set
is not missing. Every path that takes a label for consent uses `effective_labels`. The outbox may deliver a label while
IMQ reads the pull request: the read lacks the label, and nothing wants it any more. So the wanted state before a read
counts as well.

For a queued pull request only trusted labels count: those that a person with the right to queue set. Other trigger
labels do not keep it queued, and a new configuration does not dequeue it. After a dequeue a label counts only if
somebody set it later: IMQ's removal may fail for hours, and GitHub shows the label meanwhile.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import PROCESSING, Entry, Repository
from queue_engine.domain.policy import has_label
from queue_engine.effects.context import Change
from queue_engine.rules.checks import needs_testing_label
from queue_engine.store import Store, Transaction

_CLOCK_SKEW = timedelta(minutes=1)
"""How far IMQ's clock may differ from GitHub's. The difference matters only after GitHub removed the label: then a
label that is present was set later, whatever the clocks say."""


@dataclass(frozen=True, slots=True)
class LabelStates:
    """The wanted labels that GitHub has not confirmed, and when the pull request was last dequeued or refused."""

    wanted: Mapping[str, bool] = field(default_factory=dict)
    dequeued_at: datetime | None = None

    def applied(self, labels: Iterable[str]) -> frozenset[str]:
        """Return GitHub's labels as they will be after all wanted changes are delivered."""
        kept = {label for label in labels if not has_label([label], self.wanted)}
        return frozenset(kept | {label for label, on in self.wanted.items() if on})

    def consents(self, label: str, set_at: datetime | None) -> bool:
        """Whether a label that was set at that instant is consent given after the last dequeue.

        GitHub's times have whole seconds. Before its removal is delivered, a label of the same second counts as the old
        one.
        """
        if self.dequeued_at is None:
            return True
        if set_at is None:
            return False
        removed = any(not on and has_label([label], [wanted]) for wanted, on in self.wanted.items())
        return set_at > (self.dequeued_at if removed else self.dequeued_at - _CLOCK_SKEW)


async def label_states(tx: Transaction, repository_id: int, number: int) -> LabelStates:
    """Load the stored facts about the labels of this pull request."""
    wanted = await tx.outbox.wanted_labels(repository_id, number)
    return LabelStates(wanted, await tx.timeline.dequeued_at(repository_id, number))


async def start_queue_only_checks(change: Change, before: Entry, after: Entry, policy: Policy) -> None:
    """Have the testing label set, if that has to start the queue-only checks of the candidate."""
    if needs_testing_label(before, after, policy):
        label, due = policy.checks.testing_label, change.now
        await change.tx.outbox.want_label(after.repository, after.number, label, on=True, due=due)


async def remove_testing_label(change: Change, entry: Entry, policy: Policy) -> None:
    """Have the testing label removed: IMQ no longer tests this entry. `entry` is as it was before."""
    if policy.checks.queue_only and entry.status in PROCESSING:
        label, due = policy.checks.testing_label, change.now
        await change.tx.outbox.want_label(entry.repository, entry.number, label, on=False, due=due)


async def queued_by(
    tx: Transaction, repository_id: int, number: int, trusted: Iterable[str], policy: Policy
) -> frozenset[str]:
    """Return the trusted labels that queued the pull request, by the present configuration or by a former one."""
    trusted = tuple(trusted)
    known = frozenset(label for label in trusted if policy.has_trigger_label([label]))
    if known or not trusted:
        return known
    former = await tx.timeline.queued_by(repository_id, number)
    return frozenset(label for label in trusted if has_label([label], former))


async def wanted_labels(store: Store, *entries: Entry) -> dict[str, LabelStates]:
    """Load the wanted labels of these entries' pull requests, before IMQ reads them, by the entries' ids."""
    async with store.reading() as tx:
        wanted = {each.id: await tx.outbox.wanted_labels(each.repository.id, each.number) for each in entries}
    return {entry_id: LabelStates(labels) for entry_id, labels in wanted.items()}


async def effective_labels(
    store: Store,
    repository: Repository,
    pull: PullRequest,
    trusted: Iterable[str],
    policy: Policy,
    *,
    before: LabelStates | None = None,
) -> PullRequest:
    """Return the queued pull request, just read, with the labels that count: trigger and method labels if trusted.

    Where no label is trusted, all labels count. `before` are the `wanted_labels` from before the read; a list of pull
    requests, which only suggests reads, has none.
    """
    if not pull.open:
        return pull
    trusted = tuple(trusted)
    async with store.reading() as tx:
        states = LabelStates(await tx.outbox.wanted_labels(repository.id, pull.number))
        queuing = await queued_by(tx, repository.id, pull.number, trusted, policy)
    labels = states.applied((before or LabelStates()).applied(pull.labels))
    if trusted:
        guarded = (*policy.trigger_labels, *policy.merge.method_labels)
        counted = {label for label in labels if not has_label([label], guarded) or has_label([label], trusted)}
        # The configuration may have renamed the trigger label since.
        labels = frozenset(counted | {policy.trigger_label} if has_label(labels, queuing) else counted)
    return replace(pull, labels=labels)
