"""Stacks: pull requests of which each is based on the head branch of the one below. Pure."""

from queue_engine.domain.facts import BranchRules, PullRequest, Snapshot
from queue_engine.domain.stack import StackMember


def is_stacked_above(pull: PullRequest) -> bool:
    """Whether it is part of a stack of GitHub's, and another open pull request lies below it, or may.

    The base of the lowest open one is the branch on which the stack lands (gh-stack, "REST API").
    """
    return pull.stack_base is not None and pull.stack_base != pull.base_branch


def lower_member(taken: Snapshot, rules: BranchRules) -> StackMember | None:
    """Return the open pull request on which this one is stacked; None if its base branch is no other one's head.

    A base branch with checks, approvals or restrictions of its own is meant to be landed on, although it may be the
    head of a pull request, too: `develop`, of which releases are made. So is the default branch.
    """
    pull = taken.pull
    if pull.stack_base is None and (pull.base_branch == pull.default_branch or _is_ruled(rules)):
        return None
    if pull.stack_base == pull.base_branch:
        return None
    return min(taken.below, key=lambda each: each.number, default=None)


def _is_ruled(rules: BranchRules) -> bool:
    """Whether rules of the branch say what may land on it."""
    return bool(rules.required_checks or rules.approvals or rules.native_queue or rules.locked or rules.push_restricted)
