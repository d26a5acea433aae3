"""Sentences about why a pull request waits, about its checks and its landing, and the headings of lists of them."""

from collections.abc import Mapping

from notifications.texts.reason_texts import ReasonText
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import PullRequestActor, WaitReason

STATE, AHEAD_OF_IT, ORDER, CHECKS, GITHUB = "State", "Ahead of it", "Order", "Checks", "GitHub"
TRAIN, SET_ASIDE, BLOCKED, LAST, NEXT = "Train", "Set aside", "Blocked", "Last result", "Next"

STATES: Mapping[EntryStatus, str] = {
    EntryStatus.PENDING: "Queued for {base} by {queued_by} at {enqueued_at}, now at position {position} of {depth}.",
    EntryStatus.UPDATING: "First in the queue for {base}, updating the branch since {status_since}.",
    EntryStatus.CHECKING: "First in the queue for {base}, waiting for checks since {status_since}.",
    EntryStatus.READY: "First in the queue for {base}: checks passed, merging since {status_since}.",
}
TRAIN_STATES: Mapping[EntryStatus, str] = {
    EntryStatus.UPDATING: "IMQ merges it onto a train's branch for {base} since {status_since}.",
    EntryStatus.CHECKING: "A train for {base} tests it since {status_since}.",
    EntryStatus.READY: "The checks of its train passed, and it lands on {base} since {status_since}.",
}
"""Replace these states while a train tests the pull request."""
RESTING = "At position {position} of {depth} for {base}. Its checks have ended; IMQ continues when the queue does."
"""Replaces them while the queue is blocked."""
HELD = "The queue for {base} is full, with {depth} pull requests. This one waits for room, with {ahead} ahead."
OUTSIDE = "Not in the queue for {base} yet: {unmet}"
NOT_QUEUED = "Not queued."
AHEAD = "Ahead of it{when}: {numbers}."
PENDING_CHECKS = "Not reported yet: {checks}."
SHARED = "Bots and agents share one place in this queue, so others come between."
SHARE = "{author} has {count} pull requests in this queue, so others come between."
PRIORITY = "Priority: {priority}."
HOTFIX = "It is a hotfix, ahead of all other pull requests."
OUTAGE = "GitHub requests fail. IMQ has retried since {since}{next_try}."
NEXT_TRY = "; the next try is at {time}"
PAUSED_BY = "{who} paused the queue for {base}{at}{why}."
FROZEN_BY = "{who} froze {base}{at}{until}{why}, so nothing lands on it."
FROZEN = "{base} is frozen{until}{why}, so nothing lands on it."
BASE_RED = "{detail} fails on {base} itself{since}, so IMQ cannot test changes against it."
RUNNERS_BUSY = "It waits for a free {runner} runner, {busy}."
NEVER_REPORTED = "{base} requires {detail}, which no recent commit of this repository has."
A_MAINTAINER = "A maintainer"
AT, SINCE, UNTIL_THEN, BECAUSE = " at {time}", " since {time}", " until {time}", " ({detail})"
QUEUE_BLOCKED = "The queue is blocked: {sentence}"
LAST_TIME = "Last result, {time}: {sentence}"
LANDED = "Landed, {time}."
BROKE = "IMQ named it as what broke {base}, with a probability of {probability} %."
ACTORS: Mapping[PullRequestActor, str] = {
    PullRequestActor.AUTHOR: "the author",
    PullRequestActor.MAINTAINER: "a maintainer",
    PullRequestActor.OPERATOR: "the operator of IMQ",
    PullRequestActor.CI: "the CI",
    PullRequestActor.GITHUB: "GitHub",
    PullRequestActor.IMQ: "IMQ",
    PullRequestActor.NONE: "no one",
}
WHOSE_MOVE = "Who has to act: {actor}. Next: {step}"
UNTIL = "Until {time}."
DETAIL = "Details: {detail}."

POSITION_WHEN_QUEUED = " at position {position}"
POSITION_AS_OF = ", position {position} as of {time}"
OF_DEPTH = "{position} of {depth}"
WHEN_QUEUED, AS_OF = " when queued", " as of {time}"

HELD_BEHIND = {
    0: "No other pull request was waiting.",
    1: "One other pull request was waiting longer.",
}
HELD_BEHIND_MANY = "{count} other pull requests were waiting longer."
WAITS_FOR_CHECKS = "Pending checks:"
CHECKS_HAVE_REPORTED = "{done} of {total} checks have reported."
NOTHING_TO_DO = "**Nothing to do.** IMQ lands it by itself{likely}."
LIKELY_BETWEEN = ", likely between {low} and {high} (estimated at {time})"
LIKELY_BEFORE = ", likely before {high} (estimated at {time})"
RERUN = "{checks} failed, and IMQ reran it: this may be a flaky check. The pull request keeps its position."
RERUN_MANY = "{checks} failed, and IMQ reran them: these may be flaky checks. The pull request keeps its position."
LISTED = "The configuration lists {checks} as flaky until {until}."
NOTHING_FOR_YOU = "**Nothing to do for you:** the pull request keeps {place}."
LANDED_ANYWAY = "**Nothing to do for you:** the pull request has landed."
POSITION, ITS_POSITION = "position {position} (as of {time})", "its position"
QUEUE_CONTINUES = "The pull request stays queued. The queue continues without it."
OTHER_BLOCKERS = "The queue for {base} has other blockers, too:"

AFFECTED_CHECKS = "Affected checks:"
CHECK_SINCE = " since {time}"
CHECK_FINISHED = " at {time}"
CHECK_REPORTED_BY = ", reported by {app}"
CHECK_NOT_STARTED = "not reported yet"
AND_MORE = "and {count} more"

NOT_FOLLOWED = "IMQ ignores parts of the organization's shared configuration:"
BOT_MAY_QUEUE = "To let {person} queue, a maintainer names it under `who_may_queue.people` in `.github/imq.yml`."
SET_BY = "{person} asked to queue it."
LATER = "These land after it, as their descriptions say: {numbers}."
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
    WaitReason.FINDING_CAUSE: ReasonText(
        "A CI run with it failed, and IMQ tests parts of that run to find the cause.",
        "Wait: it leaves only if it is the cause.",
    ),
    WaitReason.TRAIN_FILLING: ReasonText(
        "It waits for other pull requests that IMQ can test together with it.",
        "Wait: IMQ tests it when the train is full, or after `trains.fill_wait`.",
    ),
    WaitReason.UPDATING_BRANCH: ReasonText(
        "IMQ asked GitHub to merge {base} into the branch, and waits for the new commit.",
        "Wait for the new commit.",
    ),
    WaitReason.CHECKS_PENDING: ReasonText(
        "Its required checks have not all passed on top of {base} yet.", "Wait for the checks."
    ),
    WaitReason.MERGING: ReasonText(
        "Its checks passed, and IMQ waits for GitHub to merge it into {base}.",
        "Wait for the merge.",
    ),
    WaitReason.GITHUB_FAILING: ReasonText(
        "IMQ's requests to GitHub fail, and IMQ keeps retrying.", "Wait until GitHub works again."
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
