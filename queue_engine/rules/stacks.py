"""Stacks: pull requests of which each is based on the head branch of the one below. Pure."""

import re
from dataclasses import replace
from enum import Enum, auto

from queue_engine.domain.facts import BranchRules, PullRequest, Snapshot, StackMember, StackPosition
from queue_engine.domain.known_facts import PullRequestState
from queue_engine.domain.model import Entry
from queue_engine.domain.reasons import Reason

_OF_STACK = frozenset({Reason.STACKED_ABOVE, Reason.STACK_LANDED})


def is_stacked_above(pull: PullRequest) -> bool:
    """Whether it is part of a stack of GitHub's, and another open pull request lies below it, or may.

    The base of the lowest open one is the branch on which the stack lands (gh-stack, "REST API").
    """
    return pull.stack_base is not None and pull.stack_base != pull.base_branch


def lower_member(taken: Snapshot, *, lands: bool) -> StackMember | None:
    """Return the open pull request on which this one is stacked; None if its base branch is no other one's head.

    A base branch on which pull requests are meant to land (`lands`) may be the head of a pull request, too: `develop`,
    of which releases are made. A stack of GitHub's says itself what lies below.
    """
    pull = taken.pull
    if pull.stack_base == pull.base_branch or (pull.stack_base is None and lands):
        return None
    return min(taken.below, key=lambda each: each.number, default=None)


def is_ruled(rules: BranchRules) -> bool:
    """Whether rules of the branch say what may land on it.

    A demand on commits alone (signatures, linear history) is no such rule: rulesets make it of all branches.
    """
    return bool(
        rules.protected
        or rules.required_checks
        or rules.approvals
        or rules.code_owners
        or rules.conversations
        or rules.deployments
        or rules.workflows
        or rules.native_queue
        or rules.locked
        or rules.push_restricted
    )


def aimed(taken: Snapshot, place: StackPosition) -> Snapshot:
    """Return the snapshot as if the pull request was for the branch on which its stack lands.

    What GitHub computed for its present base branch is left out.
    """
    bases = frozenset({place.own_base, place.base_branch})
    pull = replace(with_bases(taken.pull, place.base_branch, bases), mergeable=None, merge_state="unknown")
    return replace(taken, pull=pull, comparison=None, base_tip=None, behind=None, ahead=None, stack=place)


def with_bases(pull: PullRequest, base_branch: str, bases: frozenset[str]) -> PullRequest:
    """Return the pull request for this base branch; states with one of `bases` in webhooks were for it, too."""
    reported = tuple(
        one.model_copy(update={"base": base_branch, "base_changed": False})
        if isinstance(one, PullRequestState) and one.base in bases
        else one
        for one in pull.reported
    )
    return replace(pull, base_branch=base_branch, reported=reported)


class StackChange(Enum):
    """What became of the pull request below, and of the base branch of the one above it."""

    NONE = auto()
    """The one below is open."""
    LANDED = auto()
    """The one below has landed, and GitHub has not changed the base branch yet."""
    RETARGETED = auto()
    """The one below has landed, and the base branch is now the one on which it landed."""
    ENDED = auto()
    """The one below was closed without landing."""
    BASE_CHANGED = auto()
    """Somebody else changed the base branch."""


def stack_change(pull: PullRequest, lower: PullRequest, base_branch: str) -> StackChange:
    """Judge a pull request that waits for the one below; `base_branch` is the one on which their stack lands.

    GitHub changes the base branch when it deletes the head branch of the one below, as the setting of the repository
    or a person asks (docs, "Managing the automatic deletion of branches"; cli/cli #1168), or for a stack of its own
    (git-stk #306). Consent survives exactly that change (P4).
    """
    if pull.base_branch == lower.head_branch:
        if lower.open:
            return StackChange.NONE
        landed = lower.merged and lower.base_branch == base_branch
        return StackChange.LANDED if landed else StackChange.BASE_CHANGED if lower.merged else StackChange.ENDED
    retargeted = lower.merged and pull.base_branch == lower.base_branch
    return StackChange.RETARGETED if retargeted else StackChange.BASE_CHANGED


def awaited_member(entry: Entry) -> int | None:
    """Return the pull request below for which an entry waits; None if it waits for none."""
    for each in entry.unmet:
        if each.reason in _OF_STACK:
            return pull_request_in(each.detail)
    return None


def waits_for_stack(entry: Entry) -> bool:
    """Whether an entry waits for a pull request below, also if GitHub does not name that one."""
    return any(each.reason in _OF_STACK for each in entry.unmet)


def still_above(entry: Entry, listed: PullRequest) -> bool:
    """Whether a listed pull request still lies above the one for which its entry waits."""
    if listed.stack_base is not None:
        return is_stacked_above(listed) and listed.stack_base == entry.base_branch
    return any(each.reason in _OF_STACK and _branch_in(each.detail) == listed.base_branch for each in entry.unmet)


def _branch_in(detail: str | None) -> str | None:
    found = re.match(r"#\d+, of the branch (.+)", detail or "")
    return None if found is None else found[1]


def pull_request_in(detail: str | None) -> int | None:
    """Return the number of the pull request that a detail begins with: `#12`."""
    found = re.match(r"#(\d+)\b", detail or "")
    return None if found is None else int(found[1])
