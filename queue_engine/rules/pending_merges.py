"""Merges that GitHub may finish after their entries have left. Pure functions."""

from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry
from queue_engine.domain.port import MergeState, PendingMerge
from queue_engine.domain.reasons import MERGED_REASONS, Reason


def may_merge_yet(entry: Entry, reason: Reason) -> bool:
    """Return whether GitHub may merge this entry although it leaves for `reason`: no call stops a requested merge.

    The runs of trains keep what they have requested themselves.
    """
    return entry.run.merge_uuid is not None and entry.run.candidate_run is None and reason not in MERGED_REASONS


def is_requested_merge(pull: PullRequest, own_login: str, pending: PendingMerge | None) -> bool:
    """Return whether GitHub merged this pull request as IMQ requested, and not for somebody else since.

    `pending` is how far the request is, None if GitHub no longer knows it; it counts where GitHub names no account.
    """
    if pull.merged_by is not None:
        return pull.merged_by == own_login
    return pending is None or pending.state not in {MergeState.FAILED, MergeState.ENQUEUED}
