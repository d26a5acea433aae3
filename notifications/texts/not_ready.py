"""Sentences about what a pull request lacks, while it waits outside the queue: what, and the next step."""

from collections.abc import Mapping

from notifications.texts.reasons import ReasonText
from queue_engine.domain.reasons import Reason

NOT_READY: Mapping[Reason, ReasonText] = {
    Reason.STACKED_ABOVE: ReasonText(
        "The pull request is based on the branch of another open pull request, and lands after that one.",
        "When the other one has landed and its branch is deleted, GitHub changes the base of this one to {base}. "
        "If pull requests are meant to land on that branch, a maintainer names it under `branches` in the "
        "configuration.",
    ),
    Reason.STACK_LANDED: ReasonText(
        "The pull request below has landed, and GitHub has not changed the base branch of this one.",
        "Delete the branch of the other one on its page: GitHub then changes the base branch to {base}.",
    ),
    Reason.HEAD_SHARED: ReasonText(
        "Another pull request of the same branch is queued, and lands before this one.",
        "Wait until the other one has landed.",
    ),
    Reason.DRAFT: ReasonText("The pull request is a draft.", "Mark it as ready for review."),
    Reason.BLOCKED_BY_LABEL: ReasonText(
        "The pull request has a label that keeps it out of the queue.", "When it is ready to land, remove that label."
    ),
    Reason.BLOCKED_BY_TITLE: ReasonText(
        "The title matches a pattern that keeps the pull request out of the queue.",
        "When it is ready to land, change the title.",
    ),
    Reason.APPROVAL_MISSING: ReasonText(
        "{base} requires more approvals than the pull request has.", "Request a review."
    ),
    Reason.CHANGES_REQUESTED: ReasonText(
        "A reviewer requested changes.", "Make the changes, and ask that person to review again."
    ),
    Reason.CODE_OWNER_MISSING: ReasonText(
        "{base} requires an approval from a code owner.", "Request a review from a code owner."
    ),
    Reason.CONVERSATIONS_UNRESOLVED: ReasonText(
        "{base} requires resolved conversations, and some are open.", "Resolve the open conversations."
    ),
    Reason.CHECKS_FAILED: ReasonText(
        "A required check failed on the head of the pull request.", "Push a fix, or rerun the check if it is flaky."
    ),
    Reason.CHECK_ABSENT: ReasonText(
        "A required check did not report on the head of the pull request, and nothing runs that could report it.",
        "Push a commit, or run the check on this head. If a path filter skips its workflow, let the workflow run and "
        "skip the job instead.",
    ),
}

JOINS_BY_ITSELF = "It waits outside the queue. IMQ queues it as soon as it is ready."
LACKS_ALSO = "It also lacks this:"
FAILING = "Failing checks:"
FAILED_JOBS = "(failed jobs: {jobs})"
HOW_TO_END = "To end this wait, comment `/unqueue` or remove the label {label}."
