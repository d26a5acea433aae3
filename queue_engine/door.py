"""The rules at the door: whether a labelled pull request may join its queue. Pure judgements over plain data."""

from dataclasses import dataclass

from queue_engine.facts import BranchRules, Permission, PullRequest
from queue_engine.policy import Policy
from queue_engine.reasons import Reason


@dataclass(frozen=True, slots=True)
class Admit:
    """Let it in."""


@dataclass(frozen=True, slots=True)
class Hold:
    """The queue is full: remember it, it joins when a place frees."""


@dataclass(frozen=True, slots=True)
class Ignore:
    """There is nothing to decide and nobody to tell."""


@dataclass(frozen=True, slots=True)
class Refuse:
    """Turn it away with this reason."""

    reason: Reason


Answer = Admit | Hold | Ignore | Refuse


def knock(
    pull: PullRequest,
    *,
    labelled_head: str,
    permission: Permission,
    rules: BranchRules,
    depth: int,
    policy: Policy,
) -> Answer:
    """Judge a pull request at the door.

    `labelled_head` is the head that the person saw when setting the label: consent is for it and no other (P4).
    Closed pull requests and labels already gone need no words.
    """
    if not pull.open or not policy.triggered(pull.labels):
        return Ignore()
    if not permission.may_merge:
        return Refuse(Reason.LABEL_WITHOUT_RIGHT)
    if pull.draft:
        return Refuse(Reason.DRAFT)
    if pull.head_repository is None:
        return Refuse(Reason.FORK_DELETED)
    if pull.head_sha != labelled_head:
        return Refuse(Reason.HEAD_CHANGED)
    if pull.mergeable is False:
        return Refuse(Reason.CONFLICT)
    if rules.native_queue:
        return Refuse(Reason.NATIVE_QUEUE_REQUIRED)
    if policy.max_depth and depth >= policy.max_depth:
        return Hold()
    return Admit()
