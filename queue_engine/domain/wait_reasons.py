"""Codes of waiting pull requests, beside the reason codes of refusals, and the actor that each waits for."""

from enum import StrEnum


class PullRequestActor(StrEnum):
    """Who has to act next, so that a pull request lands."""

    AUTHOR = "author"
    MAINTAINER = "maintainer"
    OPERATOR = "operator"
    CI = "ci"
    GITHUB = "github"
    IMQ = "imq"
    NONE = "nobody"
    """It landed, somebody withdrew it, or only time has to pass."""


class WaitReason(StrEnum):
    """A code for a pull request that waits without a fault, or that IMQ has nothing to do for."""

    BEHIND_OTHERS = "behind_others"
    NEXT_IN_QUEUE = "next_in_queue"
    UPDATING_BRANCH = "updating_branch"
    CHECKS_PENDING = "checks_pending"
    MERGING = "merging"
    GITHUB_FAILING = "github_failing"
    NEVER_QUEUED = "never_queued"
    LANDED = "landed"
