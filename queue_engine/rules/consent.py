"""P4: only the queued head lands, or IMQ's own update of it. Pure judgements over plain data.

A push that follows IMQ's update by IMQ's own login binds the new head at once; its parents prove it before it can
land. A fork's new head that no such push announced is taken for another person's.
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
    """The reason for which this entry no longer has consent, or None.

    A head that differs while an update of ours is under way is no withdrawal yet: it is to be proved.
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
    """The reason for which consent to land `head` on `base_branch`, given by this person and the labels
    `trusted_labels` for, no longer stands, or None."""
    if pull.merged:
        return Reason.MERGED_ELSEWHERE
    if not pull.open:
        return Reason.CLOSED
    if pull.base_branch != base_branch:
        return Reason.BASE_CHANGED
    # What a configuration that cannot be read says of labels is not known; its queues hold until it can be.
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
    """Whether an update without a webhook may be recognized by its parents alone.

    Parents prove what was merged, not how: anyone who pushes can craft a merge with the right parents and any content.
    On a branch of the repository itself only people who may push there could, and they could queue it as well. A
    fork's owner needs no right at all on the repository, so there GitHub must have named IMQ as the sender, too.
    """
    return pull.head_repository == repository.full_name


def is_own_update(updated_from: str | None, comparison: Comparison, policy: Policy) -> bool:
    """Whether the compared head is IMQ's update: its parents are the old head and a commit of the base, in this order.

    The second parent is a commit of the base exactly if it is the merge base of head and base. This is asked of every
    update, by any sender. Parents prove what was merged, not its content: where write permission is not enough to
    queue, GitHub's signature has to say as well that IMQ made the merge.
    """
    if updated_from is None or comparison.head.parents != (updated_from, comparison.merge_base):
        return False
    return comparison.head.made_by_imq or not needs_signature(policy)


def needs_signature(policy: Policy) -> bool:
    """Whether an update of IMQ has to carry GitHub's signature: people who may write may not all queue."""
    return policy.may_queue in _MORE_THAN_WRITE
