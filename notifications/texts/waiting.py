"""Sentences about position, waiting and durations."""

from collections.abc import Mapping

from notifications.texts.reason_texts import ReasonText
from queue_engine.domain.reasons import WaitReason

POSITION_WHEN_QUEUED = " at position {position}"
POSITION_AS_OF = ", position {position} as of {time}"
OF_DEPTH = "{position} of {depth}"

WAITS_BEHIND_OTHERS = "It waits for the pull requests ahead of it."
AHEAD = "Ahead of it when queued: {numbers}."
AHEAD_AS_OF = "Ahead of it as of {time}: {numbers}."
AHEAD_AND_MORE = "{numbers} and {count} more"
WAITS_AT_FRONT = "It is next."
HELD_BEHIND = {
    0: "No other pull request was waiting.",
    1: "One other pull request was waiting longer.",
}
HELD_BEHIND_MANY = "{count} other pull requests were waiting longer."
WAITS_FOR_UPDATE = "IMQ asked GitHub to merge {base} into the branch, and waits for the new commit."
WAITS_FOR_CHECKS = "Pending checks:"
CHECKS_HAVE_REPORTED = "{done} of {total} checks have reported."
WAITS_FOR_FIRST_CHECK = "No check has reported yet."
WAITS_FOR_MERGE = "IMQ waits for GitHub to merge it."
LIKELY_BETWEEN = "Likely to land in {low} to {high}, based on earlier landings (as of {time})."
LIKELY_WITHIN = "Likely to land within {high}, based on earlier landings (as of {time})."
RERUN = "{checks} failed, and IMQ reran it: this may be a flaky check. The pull request keeps its position."
RERUN_MANY = "{checks} failed, and IMQ reran them: these may be flaky checks. The pull request keeps its position."
RETRYING = "GitHub requests fail. IMQ has retried since {since}; the next try is at {next_try}."
KEEPS_POSITION = "The pull request keeps its position."
QUEUE_CONTINUES = "The pull request stays queued. The queue continues without it."
UNTIL = "Until {time}."
OTHER_BLOCKERS = "The queue for {base} has other blockers, too:"

AFFECTED_CHECKS = "Affected checks:"
CHECK_SINCE = " since {time}"
CHECK_FINISHED = " at {time}"
CHECK_REPORTED_BY = ", reported by {app}"
CHECK_NOT_STARTED = "not reported yet"
AND_MORE = "and {count} more"

DETAIL = "Details: {detail}"
NOT_FOLLOWED = "IMQ ignores parts of the organization's shared configuration:"
BOT_MAY_QUEUE = "To let {person} queue, a maintainer names it under `who_may_queue.people` in `.github/imq.yml`."
SET_BY = "{person} added the label."
HOW_TO_DEQUEUE = "To dequeue it, comment `/unqueue` or remove the label {label}."

LANDED_AS = " as {commit}"
COMMIT = "Commit: {commit}"
KEPT_RESULT = "After the test, {base} changed only in files that need none: {paths}."
TIME_IN_QUEUE = "Time in the queue: {total}."
TIME_AT_FRONT = "Time in the queue: {total}, of which {front} at the front."
TIME_IN_CI = "Time in the queue: {total}, of which {front} at the front and {checks} in CI."
WAS_FLAKY = "{checks} failed, then passed on a rerun of the same commit: the check is flaky."
WERE_FLAKY = "{checks} failed, then passed on a rerun of the same commit: the checks are flaky."


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
