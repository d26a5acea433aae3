"""Sentences of answers for programs and pages, for each state in which a pull request waits or needs nothing."""

from collections.abc import Mapping

from notifications.texts.reason_text import ReasonText
from queue_engine.domain.wait_reasons import WaitReason

WAITS: Mapping[WaitReason, ReasonText] = {
    WaitReason.BEHIND_OTHERS: ReasonText(
        "Other pull requests are ahead of it in the queue for {base}.",
        "Wait: IMQ tests it when it is first.",
    ),
    WaitReason.NEXT_IN_QUEUE: ReasonText(
        "It is first in the queue for {base}, and IMQ is about to test it.",
        "Wait: IMQ tests it next.",
    ),
    WaitReason.UPDATING_BRANCH: ReasonText(
        "IMQ asked GitHub to merge {base} into the branch, and waits for the new commit.",
        "Wait for the new commit.",
    ),
    WaitReason.CHECKS_PENDING: ReasonText(
        "Its required checks have not all passed on top of {base} yet.",
        "Wait for the checks.",
    ),
    WaitReason.MERGING: ReasonText(
        "Its checks passed, and IMQ merges it into {base}.",
        "Wait for the merge.",
    ),
    WaitReason.GITHUB_FAILING: ReasonText(
        "IMQ's requests to GitHub fail, and IMQ keeps retrying.",
        "Wait until GitHub works again.",
    ),
    WaitReason.NEVER_QUEUED: ReasonText(
        "The pull request was never queued.",
        "To queue it, comment `/queue` or add the label {label}.",
    ),
    WaitReason.LANDED: ReasonText(
        "The pull request landed on {base}.",
        "IMQ has nothing left to do.",
    ),
}
