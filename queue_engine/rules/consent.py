"""P4: only the queued head lands, or IMQ's own update of it. Pure, over plain data.

A push by IMQ's own login after IMQ's update request binds the new head at once; its parents prove it before it can
land. Without such a push, a fork's new head counts as another person's.
"""

from collections.abc import Iterable
from datetime import datetime

from queue_engine.domain.facts import Comparison, Permission, PullRequest
from queue_engine.domain.model import Entry, EntryStatus, Repository
from queue_engine.domain.policy import Policy
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent_changes import withdrawn_since_queued
from queue_engine.rules.eligibility import blocked_by_config

_MORE_THAN_WRITE = frozenset({Permission.MAINTAIN, Permission.ADMIN})


def entry_consent_lost(entry: Entry, pull: PullRequest, policy: Policy) -> Reason | None:
    """Return why this entry no longer has consent, or None.

    While IMQ's own update is under way, a different head is no withdrawal: it has to be proved first.
    """
    head = pull.head_sha if entry.status is EntryStatus.UPDATING else entry.head
    return consent_lost(
        pull,
        base_branch=entry.base_branch,
        head=head,
        policy=policy,
        queued_at=entry.enqueued_at,
        queued_by=entry.queued_by,
        trusted_labels=entry.trusted_labels,
    )


def consent_lost(
    pull: PullRequest,
    *,
    base_branch: str,
    head: str,
    policy: Policy,
    queued_at: datetime,
    queued_by: str,
    trusted_labels: Iterable[str],
) -> Reason | None:
    """Return why the consent to land `head` on `base_branch` has ended, or None.

    `queued_by` gave the consent, by one of the `trusted_labels` or by a command.
    """
    if pull.merged:
        return Reason.MERGED_ELSEWHERE
    if not pull.open:
        return Reason.CLOSED
    if pull.base_branch != base_branch:
        return Reason.BASE_CHANGED
    # While the configuration cannot be read, its trigger labels are unknown, and its queues hold.
    known = policy.fault is None
    if known and not policy.has_trigger_label(pull.labels):
        return Reason.LABEL_REMOVED
    if known and not policy.served:
        return Reason.BRANCH_NOT_SERVED
    if pull.draft:
        return Reason.DRAFT
    if pull.head_repository is None:
        return Reason.FORK_DELETED
    blocked = blocked_by_config(pull, policy)
    if blocked is not None:
        return blocked.reason
    withdrawn = withdrawn_since_queued(
        pull,
        base_branch=base_branch,
        policy=policy,
        queued_at=queued_at,
        queued_by=queued_by,
        trusted_labels=trusted_labels,
    )
    if withdrawn is not None:
        return withdrawn
    return Reason.HEAD_CHANGED if pull.head_sha != head else None


def may_be_updated_silently(repository: Repository, pull: PullRequest) -> bool:
    """Whether parents alone may prove an update for which no webhook came.

    Parents prove which commits were merged, not the content: anyone with push access can craft such a merge. On a
    branch of the repository itself, these people may queue as well. A fork's owner needs no right on the repository.
    So for forks GitHub must have named IMQ as the sender, too.
    """
    return pull.head_repository == repository.full_name


def is_own_update(updated_from: str | None, comparison: Comparison, policy: Policy) -> bool:
    """Whether the compared head is IMQ's update: its parents are the old head and a commit of the base, in this order.

    The second parent is a commit of the base exactly if it is the merge base of head and base. This holds for every
    update, by any sender. Parents do not prove the content. So where write permission is not enough to queue, GitHub's
    signature has to prove that IMQ made the merge.
    """
    if updated_from is None or comparison.head.parents != (updated_from, comparison.merge_base):
        return False
    return comparison.head.made_by_imq or not needs_signature(policy)


def needs_signature(policy: Policy) -> bool:
    """Whether an update of IMQ needs GitHub's signature: if write permission is not enough to queue."""
    return policy.may_queue in _MORE_THAN_WRITE
