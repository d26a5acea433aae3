"""Dequeue pull requests on behalf of people and programs.

Their label comes off as well. While GitHub merges, the label no longer counts, so that IMQ does not retry a merge that
fails.
"""

from dataclasses import dataclass, replace

from queue_engine.admission.case import Case
from queue_engine.admission.rejection import assert_may_queue
from queue_engine.domain.dequeue_reason import DequeueReason
from queue_engine.domain.errors import EngineError
from queue_engine.domain.facts import Snapshot
from queue_engine.domain.reasons import Reason
from queue_engine.effects import notices, record
from queue_engine.effects.context import Change, Engine
from queue_engine.effects.labels import queued_by


class NotQueued(EngineError):
    """The pull request is not queued."""


@dataclass(frozen=True, slots=True)
class DequeuePermission:
    """The permission to dequeue a pull request: its case, with its policy."""

    case: Case
    by: str
    """The login of the requester."""


async def authorize_dequeue(engine: Engine, case: Case, *, by: str, taken: Snapshot | None = None) -> DequeuePermission:
    """Permit `dequeue_by_user`, if the author of the pull request asks, or a person who may queue it.

    `taken` is a snapshot that the caller has just read. Raises RejectionError, NotQueued and GitHubError.
    """
    if (entry := case.entry) is None:
        raise NotQueued(f"pull request {case.number} is not queued")
    case = await case.with_policy(engine, entry.base_branch)
    author = entry.author if taken is None else taken.pull.author
    if author.casefold() != by.casefold():
        permission = None if taken is None else taken.permission
        assert_may_queue(case.policy, by, permission or await engine.github.permission(case.repository, by))
    return DequeuePermission(case, by=by)


async def dequeue_by_user(change: Change, permitted: DequeuePermission) -> bool:
    """Dequeue a pull request; False: its merge is under way, so GitHub decides.

    IMQ removes its label, which is no consent any more meanwhile. Raises NotQueued.
    """
    tx, now, case = change.tx, change.now, permitted.case
    repository, number, policy = case.repository, case.number, case.policy
    entry = await tx.entries.find(repository.id, number)
    if entry is None:
        raise NotQueued(f"pull request {number} is not queued")
    if entry.run.merge_requested_at is None:
        why = DequeueReason(Reason.UNQUEUED, delivery=case.delivery, by=permitted.by)
        await record.dequeue(change, entry, why, policy)
        return True
    # If GitHub refuses the merge, IMQ checks consent again: then no label that queued the pull request counts.
    queuing = await queued_by(tx, repository.id, number, entry.trusted_labels, policy)
    trusted = tuple(label for label in entry.trusted_labels if label not in queuing)
    await tx.entries.save(replace(entry, needs_refetch=True, trusted_labels=trusted))
    await notices.remove_label(tx, repository, number, policy, now, also=queuing)
    await tx.queues.wake(entry.queue_id, now)
    return False
