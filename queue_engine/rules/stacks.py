"""Stacks: pull requests of which each is based on the head branch of the one below. Pure."""

from queue_engine.domain.facts import PullRequest


def is_stacked_above(pull: PullRequest) -> bool:
    """Whether it is part of a stack of GitHub's, and another open pull request lies below it, or may.

    The base of the lowest open one is the branch on which the stack lands (gh-stack, "REST API").
    """
    return pull.stack_base is not None and pull.stack_base != pull.base_branch
