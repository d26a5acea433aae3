"""P4: only the queued head lands, or IMQ's own update of it. Pure, over plain data.

A push by IMQ's own login after IMQ's update request binds the new head at once; its parents prove it before it can
land. Without such a push, a fork's new head counts as another person's.
"""

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.rules.consent_changes import CHANGED_SINCE_COMMAND, changed_since_command, withdrawn_since_queued
from queue_engine.rules.eligibility import Reject, blocked_by_config, refused_auto_merge, waits


def consent_lost(entry: Entry, pull: PullRequest, policy: Policy) -> Reject | None:
    """Return why this entry no longer has consent, or None.

    While IMQ's own update is under way, a different head is no withdrawal: it has to be proved first. A pull request
    that waits until it is ready may be a draft, and have a label or title that the configuration blocks.
    """
    if (reason := _lost_by_state(entry, pull, policy)) is not None:
        return Reject(reason)
    blocked = blocked_by_config(pull, policy) if entry.is_ready or not waits(policy) else None
    if (refused := blocked or refused_auto_merge(pull, policy)) is not None:
        return refused
    if (reason := withdrawn_since_queued(pull, entry, policy)) is not None:
        return Reject(reason)
    if (reason := changed_since_command(pull.reported, entry.queued_head)) is not None:
        return Reject(reason, CHANGED_SINCE_COMMAND[reason])
    changed = entry.status is not EntryStatus.UPDATING and pull.head_sha != entry.head
    return Reject(Reason.HEAD_CHANGED) if changed else None


def _lost_by_state(entry: Entry, pull: PullRequest, policy: Policy) -> Reason | None:
    if pull.merged:
        return Reason.MERGED_ELSEWHERE
    if not pull.open:
        return Reason.CLOSED
    if pull.base_branch != entry.base_branch:
        return Reason.BASE_CHANGED
    # While the configuration cannot be read, its trigger labels are unknown, and its queues hold.
    if policy.fault is None and not policy.has_trigger_label(pull.labels):
        return Reason.LABEL_REMOVED
    if policy.fault is None and not policy.enabled:
        return Reason.BRANCH_NOT_SERVED
    if pull.draft and entry.is_ready:
        return Reason.DRAFT
    return Reason.FORK_DELETED if pull.head_repository is None else None
