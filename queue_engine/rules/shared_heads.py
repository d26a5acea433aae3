"""P4: a head branch that several queued pull requests share, each for a base branch of its own. Pure.

IMQ's update for one of them merges the tip of its base branch into the head of all. For another one this is content
that was not queued, unless its own base branch contains that tip already.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

from queue_engine.config.model import Policy
from queue_engine.domain.facts import Comparison, PullRequest
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.rules.consent import needs_signature
from queue_engine.rules.eligibility import Admit, NotReady, Reject, waits
from queue_engine.rules.transitions import preempted

A = TypeVar("A")


def head_branch_of(pull: PullRequest) -> str | None:
    """Return `owner/name:branch` of the head; None if its fork is deleted, or the branch is not known."""
    if pull.head_repository is None or not pull.head_branch:
        return None
    return f"{pull.head_repository}:{pull.head_branch}"


def updated_for(entry: Entry, head: str, others: Iterable[Entry]) -> Entry | None:
    """Return the entry for which IMQ made this head from the entry's own head; None if IMQ made it for none of them.

    If IMQ updated both at once, the entry may have the other one's update as its head, not proved yet.
    """
    before = {entry.head} if entry.updated_from is None else {entry.head, entry.updated_from}
    for other in others:
        requested = other.run.new_head_is_ours and other.head in before and other.run.new_head == head
        if requested or (other.updated_from in before and other.head == head):
            return other
    return None


def most_active(others: Iterable[Entry]) -> Entry | None:
    """Return the entry whose update may have moved the shared head: the one that IMQ works on, else the first."""
    return min(others, key=lambda each: (each.status is EntryStatus.PENDING, each.seq), default=None)


def named(other: Entry | None) -> str | None:
    """Name a pull request that shares the head branch."""
    return None if other is None else f"#{other.number}, queued for {other.base_branch}"


def behind_others(others: Iterable[Entry], pull: PullRequest, policy: Policy, answer: A) -> A | NotReady | Reject:
    """Let a pull request wait while another one of the same branch is queued: IMQ may update the branch for that one.

    `others` have its head branch. Any other answer than that it may join, or wait, remains.
    """
    queued = [each for each in others if each.is_ready and each.base_branch != pull.base_branch]
    if not isinstance(answer, Admit | NotReady) or (other := most_active(queued)) is None:
        return answer
    if not waits(policy):
        return Reject(Reason.HEAD_SHARED, named(other))
    unmet = answer.unmet if isinstance(answer, NotReady) else ()
    return NotReady((UnmetRequirement(Reason.HEAD_SHARED, named(other)), *unmet))


def merged_tip(entry: Entry, compared: Comparison, policy: Policy) -> str | None:
    """Return the tip that an update merged into the entry's head, by its parents; None: this is no such update.

    Where write permission is not enough to queue, GitHub's signature has to prove that IMQ made it.
    """
    parents = compared.head.parents
    if len(parents) != 2 or parents[0] != entry.head or (needs_signature(policy) and not compared.head.made_by_imq):
        return None
    return parents[1]


def with_shared_update(entry: Entry, head: str, now: datetime) -> Entry:
    """Bind an update that brings the entry's own base branch nothing new, as if the entry had been queued with it.

    A run on the former head ends.
    """
    return replace(preempted(entry, now), queued_head=head, head=head, head_proved=True, updated_from=None)
