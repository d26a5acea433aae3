"""What GitHub's refusals mean: one status stands for several causes, told apart by facts and last by its words.

Sources: GitHub's documentation of `update-branch` (422, 403) and of merging (405, 409).
"""

from dataclasses import replace
from datetime import datetime

from queue_engine.actions import Action, Fact, Leave, Look, Save, Seen, Wait
from queue_engine.core.backoff import wait
from queue_engine.core.monitor import unvaried
from queue_engine.entering import enter, looked, unseen_head, up_to_date
from queue_engine.model import Entry, EntryStatus
from queue_engine.policy import Policy
from queue_engine.reasons import Reason


def judge_refused_update(entry: Entry, words: str, seen: Seen, policy: Policy, now: datetime) -> Action:
    """422 has several causes, told apart by facts: a new head, nothing to update, a conflict, or a real refusal."""
    if seen.pull is None:
        return Look(Fact.PULL)
    if seen.pull.head_sha != entry.head:
        return Save(unseen_head(entry, seen.pull.head_sha, policy, now))
    if seen.comparison is None:
        return Look(Fact.COMPARISON)
    if seen.comparison.behind == 0:
        return Save(up_to_date(entry, seen.comparison, now))
    if seen.update_forbidden:
        own = seen.pull.head_repository == entry.repository.full_name
        return Leave(Reason.PERMISSION_MISSING if own else Reason.UPDATE_REFUSED, detail=words)
    if seen.pull.mergeable is False or "conflict" in words.lower():
        return Leave(Reason.CONFLICT)
    if seen.pull.mergeable is True:
        return Leave(Reason.UPDATE_REFUSED, detail=words)
    if now - entry.status_since >= policy.update_timeout:
        return Leave(Reason.MERGEABLE_UNKNOWN, detail=words)
    waiting = looked(entry, policy.ask_again, now)
    return Wait(waiting, waiting.recheck_at or now)


def judge_refused_merge(entry: Entry, words: str, seen: Seen, policy: Policy, now: datetime) -> Action | None:
    """405 and 409 cover passing and lasting refusals alike; None means: try again at once with fresh facts."""
    if seen.merge_denied is not None:
        return Leave(seen.merge_denied, detail=words)
    if seen.pull is not None and seen.pull.mergeable is False:
        return Leave(Reason.CONFLICT)
    if "merge queue" in words.lower():
        return Leave(Reason.NATIVE_QUEUE_REQUIRED, detail=words)
    if entry.refusals >= policy.merge_refusals:
        return Leave(Reason.REFUSED_BY_RULES, detail=words)
    if "base branch was modified" in words.lower() or forbids_merge_commits(words):
        return None
    again = now + wait(policy.ask_again, entry.refusals, random=unvaried)
    if "status check" in words.lower():
        # A check is required that was not known of, or one was started again: all are looked at once more.
        checking = enter(entry, EntryStatus.CHECKING, now)
        return Save(replace(checking, merge_requested_at=None, recheck_at=again))
    return Wait(replace(entry, recheck_at=again), again)


def forbids_merge_commits(words: str | None) -> bool:
    """Classic protection shows linear history to administrators only; others learn it from the refusal's words."""
    return words is not None and "merge commits" in words.lower()
