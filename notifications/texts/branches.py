"""Sentences for reasons that lie in branches of several pull requests: stacks, and a branch that several share."""

from collections.abc import Mapping

from notifications.texts.reason_text import REQUEUE, ReasonText
from queue_engine.domain.reasons import Reason

BRANCHES: Mapping[Reason, ReasonText] = {
    Reason.UPDATED_FOR_ANOTHER: ReasonText(
        "IMQ updated the branch for another pull request that shares it. The branch now has commits of that base "
        "branch, which {base} lacks and which were not queued here.",
        "Review the new commits, or use a branch of its own for each base branch." + REQUEUE,
    ),
    Reason.STACKED_ABOVE: ReasonText(
        "The pull request is based on the branch of another open pull request, and lands after that one.",
        "When the other one has landed, comment `/queue` or add the label {label}. If pull requests are meant to land "
        "on that branch, a maintainer names it under `branches` in the configuration.",
    ),
    Reason.STACK_LANDED: ReasonText(
        "The pull request below has landed, and GitHub has not changed the base branch of this one.",
        "Delete the branch of the other one on its page, or change the base branch to {base}." + REQUEUE,
    ),
    Reason.STACK_ENDED: ReasonText(
        "The pull request below it was closed without landing.",
        "Change the base branch of this one to the branch on which it is to land." + REQUEUE,
    ),
    Reason.HEAD_SHARED: ReasonText(
        "Another pull request of the same branch is queued. IMQ may update the branch for that one first.",
        "When the other one has landed, comment `/queue` or add the label {label}.",
    ),
    Reason.STACKED: ReasonText(
        "The pull request is part of a stack, and GitHub did not let IMQ merge it.",
        "Rebase or merge the stack on GitHub, or remove the pull request from the stack." + REQUEUE,
    ),
}
