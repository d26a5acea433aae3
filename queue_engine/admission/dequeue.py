"""Dequeue pull requests on behalf of people and programs.

Their label comes off as well. While GitHub merges, the label goes first, so that a merge that fails is not tried again.
"""

from dataclasses import dataclass, replace

from queue_engine.admission.rejection import assert_may_queue
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import EngineError, StaleRecord
from queue_engine.domain.facts import PullRequest, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.effects import record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.notices import set_no_label


class NotQueued(EngineError):
    """The pull request is not queued."""


@dataclass(frozen=True, slots=True)
class DequeuePermission:
    """That a pull request may go: the policy that it goes by, and whether its label is off already."""

    policy: Policy
    unlabelled: bool
    by: str
    """Who asked."""


async def authorize_dequeue(
    engine: Engine, repository: Repository, number: int, *, by: str, taken: Snapshot | None = None
) -> DequeuePermission:
    """Permit `dequeue_by_user`, if the author of the pull request asks, or a person who may queue it.

    While GitHub merges, this removes the label. `taken` is the snapshot that the caller has just taken. Raises
    RejectionError, NotQueued and GitHubError.
    """
    async with engine.store.reading() as tx:
        entry = await tx.entries.find(repository.id, number)
    if entry is None:
        raise NotQueued(f"pull request {number} is not queued")
    policy = await engine.policies.of(repository, entry.base_branch)
    merging = entry.merge_requested_at is not None
    if entry.author.casefold() != by.casefold():
        told = None if taken is None else taken.permission
        assert_may_queue(policy, by, told or await engine.github.permission(repository, by))
    if merging:
        pull = await engine.github.pull_request(repository, number) if taken is None else taken.pull
        await _remove_label(engine, repository, pull, policy)
    return DequeuePermission(policy, unlabelled=merging, by=by)


async def dequeue_by_user(
    change: Change, repository: Repository, number: int, leave: DequeuePermission, *, delivery: str | None = None
) -> bool:
    """Take a pull request out of its queue; False: its merge is under way, so GitHub decides.

    Its label comes off, and is no new wish as long as it is there. Raises NotQueued, and StaleRecord when something
    changed since the leave was given: to be asked for again then.
    """
    tx, now = change.tx, change.now
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        raise NotQueued(f"pull request {number} is not queued")
    if entry.merge_requested_at is None:
        why = DequeueReason(Reason.UNQUEUED, delivery=delivery, by=leave.by)
        await record.dequeue(change, entry, why, leave.policy)
        return True
    if not leave.unlabelled:
        raise StaleRecord(f"the merge of pull request {number} was asked for in this moment")
    # Should GitHub refuse the merge, consent is looked at again; that IMQ took the label off itself is no mishap then.
    trusted = tuple(label for label in entry.trusted_labels if not leave.policy.has_trigger_label([label]))
    await tx.entries.save(replace(entry, needs_refetch=True, trusted_labels=trusted))
    await set_no_label(tx, repository, number, now)
    await tx.queues.wake(entry.queue_id, now)
    return False


def without_label(pull: PullRequest, policy: Policy) -> PullRequest:
    """The pull request as it is when the labels that queue are off."""
    return replace(pull, labels=frozenset(label for label in pull.labels if not policy.has_trigger_label([label])))


async def _remove_label(engine: Engine, repository: Repository, pull: PullRequest, policy: Policy) -> None:
    for label in sorted(pull.labels - without_label(pull, policy).labels):
        await engine.github.remove_label(repository, pull.number, label)
