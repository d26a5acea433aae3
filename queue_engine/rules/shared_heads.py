"""P4: a head branch that several queued pull requests share, each for a base branch of its own. Pure.

IMQ's update for one of them merges the tip of its base branch into the head of all. For another one this is content
that was not queued, unless its own base branch contains that tip already.
"""

from collections.abc import Iterable
from typing import TypeVar

from queue_engine.config.model import Policy
from queue_engine.domain.facts import PullRequest
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.domain.unmet_requirement import UnmetRequirement
from queue_engine.rules.eligibility import Admit, NotReady, Reject, waits

A = TypeVar("A")


def head_branch_of(pull: PullRequest) -> str | None:
    """Return `owner/name:branch` of the head; None if its fork is deleted, or the branch is not known."""
    if pull.head_repository is None or not pull.head_branch:
        return None
    return f"{pull.head_repository}:{pull.head_branch}"


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
