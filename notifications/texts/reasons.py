"""What happened, for each reason, and the one thing to do next."""

from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.reasons import Move, Reason


@dataclass(frozen=True, slots=True)
class ReasonText:
    """What happened, and the one thing to do next."""

    sentence: str
    next_step: str


REASONS: Mapping[Reason, ReasonText] = {
    Reason.LABEL_REMOVED: ReasonText(
        "The label {label} was removed, and with it the wish to land this.",
        "To queue it again, comment `/queue` or set the label {label}.",
    ),
    Reason.UNQUEUED: ReasonText(
        "It was called off by hand.",
        "To queue it again, comment `/queue` or set the label {label}.",
    ),
    Reason.NOT_QUEUED: ReasonText(
        "It is in no queue: IMQ's database was restored or replaced since it was queued.",
        "To queue it again, comment `/queue` or set the label {label}.",
    ),
    Reason.CLOSED: ReasonText(
        "The pull request was closed.",
        "If it should land after all, reopen it and comment `/queue` or set the label {label} again.",
    ),
    Reason.MERGED_ELSEWHERE: ReasonText(
        "The pull request was merged outside of the queue.",
        "Nothing is left to do here.",
    ),
    Reason.DRAFT: ReasonText(
        "The pull request is a draft, and drafts are not merged.",
        "Once it is ready for review, comment `/queue` or set the label {label} again.",
    ),
    Reason.BASE_CHANGED: ReasonText(
        "The base branch of the pull request was changed, and it was queued for another one.",
        "If it should land on its new base branch, comment `/queue` or set the label {label} again.",
    ),
    Reason.BASE_CHANGED_AT_MERGE: ReasonText(
        "Somebody changed the base branch of the pull request while IMQ merged it. So GitHub merged it into another "
        "branch than {base}, and nobody tested it there.",
        "Check the branch that it was merged into, and revert the merge there if that branch should not have it.",
    ),
    Reason.HEAD_CHANGED: ReasonText(
        "New commits arrived after it was queued. Only what was queued is merged, so that nothing lands unseen.",
        "When the new commits are as they should be, comment `/queue` or set the label {label} again.",
    ),
    Reason.PERMISSION_LOST: ReasonText(
        "The person who queued it may no longer queue here.",
        "Somebody who may queue can comment `/queue` or set the label {label} again.",
    ),
    Reason.LABEL_WITHOUT_RIGHT: ReasonText(
        "Queueing needs the right to merge, and the person who set the label {label} does not have it here.",
        "Somebody with write permission can comment `/queue` or set the label {label} again.",
    ),
    Reason.LABEL_NOT_RECEIVED: ReasonText(
        "IMQ did not receive GitHub's webhook for the label {label}, and the pull request has changed since. "
        "So IMQ cannot tell which commits the label was set for.",
        "Look at the pull request as it is now, then comment `/queue` or set the label {label} again.",
    ),
    Reason.QUEUE_FULL: ReasonText(
        "The queue for {base} is full right now. The pull request joins by itself as soon as a place frees.",
        "Leave the label {label} on, and it keeps its turn.",
    ),
    Reason.FORK_DELETED: ReasonText(
        "The repository that the branch comes from no longer exists, so it can be neither updated nor tested.",
        "Push the branch to a repository that exists and open a new pull request from there.",
    ),
    Reason.NOT_ALLOWED_TO_QUEUE: ReasonText(
        "This repository's configuration lets only some people queue for {base}. The person who asked is none of them.",
        "Somebody who may queue can comment `/queue` or set the label {label} again.",
    ),
    Reason.BRANCH_NOT_SERVED: ReasonText(
        "This repository's configuration has no queue for {base}.",
        "Merge it by hand, or give {base} a queue in .github/imq.yml and comment `/queue` or set the label {label} "
        "again.",
    ),
    Reason.BLOCKED_BY_LABEL: ReasonText(
        "It carries a label with which this repository's configuration keeps it out of the queue.",
        "Take that label off when nothing speaks against landing any more, then comment `/queue` or set the label "
        "{label} again.",
    ),
    Reason.BLOCKED_BY_TITLE: ReasonText(
        "This repository's configuration keeps pull requests with such a title out of the queue.",
        "Change the title when the pull request is ready to land, then comment `/queue` or set the label {label} "
        "again.",
    ),
    Reason.HOLD_TIMED_OUT: ReasonText(
        "No place in the queue for {base} became free for as long as IMQ waits.",
        "Find out what holds the queue up, then comment `/queue` or set the label {label} again.",
    ),
    Reason.ASKED_TOO_OFTEN: ReasonText(
        "The label {label} was set again and again for commits that were turned away, so for a while IMQ does not "
        "look at them any more.",
        "Push what mends it, or wait for that time, and comment `/queue` or set the label {label} again. "
        "The command `/queue` is heard at once.",
    ),
    Reason.CONFLICT: ReasonText(
        "The changes overlap with what is on {base} by now, and git cannot decide alone what to keep.",
        "Resolve the conflict with {base}, push, and comment `/queue` or set the label {label} again.",
    ),
    Reason.CHECKS_FAILED: ReasonText(
        "A check that has to pass did not pass.",
        "Look at the failing check: push a fix, or run it again if it is not about this change. "
        "Then comment `/queue` or set the label {label} again.",
    ),
    Reason.CHECKS_TIMED_OUT: ReasonText(
        "A required check did not finish in time. (A workflow that a path filter skips never reports: its check stays "
        "pending for ever.)",
        "Find out why the check does not report for this change, then comment `/queue` or set the label {label} again.",
    ),
    Reason.NO_CHECKS: ReasonText(
        "No check has reported, and {base} requires none: nothing says that this change works.",
        "Let a check run on this pull request, or require one for {base}. Then comment `/queue` or set the label "
        "{label} again.",
    ),
    Reason.CHECKS_BROKE_DOWN: ReasonText(
        "A check that has to pass broke down before it could tell anything about this change.",
        "See what happened to the check's runner, then comment `/queue` or set the label {label} again.",
    ),
    Reason.CHECKS_NOT_REPEATED: ReasonText(
        "A check reported on the commit that was queued, but not on the update with {base}.",
        "Require the checks that count for {base}, or list this one under `checks.ignored` in .github/imq.yml. Then "
        "comment `/queue` or set the label {label} again.",
    ),
    Reason.WORKFLOWS_UNAPPROVED: ReasonText(
        "GitHub runs these workflows only after a maintainer approves them.",
        "Approve the workflow runs on GitHub, then comment `/queue` or set the label {label} again.",
    ),
    Reason.BASE_STAYS_RED: ReasonText(
        "{base} itself has not passed its checks for as long as IMQ waits, so nothing could be found out about this.",
        "Find out why {base} is red and mend it, then comment `/queue` or set the label {label} again.",
    ),
    Reason.MERGEABLE_UNKNOWN: ReasonText(
        "GitHub did not work out in time whether this can be merged.",
        "Comment `/queue` or set the label {label} again: by then GitHub usually knows.",
    ),
    Reason.UPDATE_REFUSED: ReasonText(
        "GitHub did not let IMQ bring the branch up to date with {base}.",
        "Update the branch with {base} yourself (or, on a fork, allow edits by maintainers), "
        "then comment `/queue` or set the label {label} again.",
    ),
    Reason.HEAD_PROTECTED: ReasonText(
        "The head branch is behind {base}, and IMQ does not merge {base} into it: the head branch is protected, and "
        "other pull requests are merged into it.",
        "Merge {base} into the head branch by a pull request of its own, then comment `/queue` or set the label "
        "{label} again.",
    ),
    Reason.UPDATE_TIMED_OUT: ReasonText(
        "GitHub agreed to bring the branch up to date with {base}, but the new commit did not appear in time.",
        "Update the branch with {base} yourself, then comment `/queue` or set the label {label} again.",
    ),
    Reason.BASE_KEEPS_MOVING: ReasonText(
        "{base} kept moving while the checks ran, so they never told about what would have landed.",
        "Land changes on {base} through the queue only, for a while at least, then comment `/queue` or set the label "
        "{label} again.",
    ),
    Reason.REFUSED_BY_RULES: ReasonText(
        "The rules of {base} do not let it in yet.",
        "See what GitHub still asks for below the pull request, an approval for example, "
        "then comment `/queue` or set the label {label} again.",
    ),
    Reason.NATIVE_QUEUE_REQUIRED: ReasonText(
        "{base} requires GitHub's own merge queue, so nobody can merge past it, IMQ included.",
        "Use GitHub's queue for {base}, or drop that rule and comment `/queue` or set the label {label} again.",
    ),
    Reason.OWN_CHECK_REQUIRED: ReasonText(
        "IMQ's own check is among those that {base} requires, and it ends only when the pull request has landed.",
        "Take it off the required checks of {base} (protection, rulesets or .github/imq.yml), then "
        "comment `/queue` or set the label {label} again.",
    ),
    Reason.APPROVAL_MISSING: ReasonText(
        "{base} asks for more approvals than this pull request has.",
        "Ask for a review, then comment `/queue` or set the label {label} again.",
    ),
    Reason.CHANGES_REQUESTED: ReasonText(
        "A reviewer has requested changes.",
        "Make the changes, or talk them over with the reviewer, whose approval opens the way. "
        "Then comment `/queue` or set the label {label} again.",
    ),
    Reason.CODE_OWNER_MISSING: ReasonText(
        "{base} asks for the approval of a code owner, and it is missing.",
        "Ask a code owner for a review, then comment `/queue` or set the label {label} again.",
    ),
    Reason.CONVERSATIONS_UNRESOLVED: ReasonText(
        "{base} asks for every conversation of the review to be resolved.",
        "Resolve the open conversations, then comment `/queue` or set the label {label} again.",
    ),
    Reason.SIGNATURES_MISSING: ReasonText(
        "{base} takes signed commits only, and some of these are not signed.",
        "Sign the commits and push them, then comment `/queue` or set the label {label} again.",
    ),
    Reason.LINEAR_HISTORY_REQUIRED: ReasonText(
        "{base} takes no merge commits, as its history is to be linear, and this would land by one.",
        "Allow squash or rebase merges, or ask for one of them, then comment `/queue` or set the label {label} again.",
    ),
    Reason.METHOD_NOT_ALLOWED: ReasonText(
        "The way of merging that is asked for here is not allowed on {base}.",
        "Allow it in the repository's settings or ask for another one, then comment `/queue` or set the label {label} "
        "again.",
    ),
    Reason.BRANCH_LOCKED: ReasonText(
        "{base} is locked: nothing can be merged into it.",
        "When {base} is unlocked, comment `/queue` or set the label {label} again.",
    ),
    Reason.PUSH_RESTRICTED: ReasonText(
        "Only some people and Apps may push to {base}, and IMQ is not among them.",
        "Let IMQ push to {base} in its protection rules, then comment `/queue` or set the label {label} again.",
    ),
    Reason.RULESET_BYPASSED: ReasonText(
        "IMQ may bypass a ruleset of {base}. GitHub would not check what it demands, and IMQ cannot check it.",
        "Split the ruleset: let IMQ bypass only one that restricts who may update {base}, and move all other rules to "
        "a ruleset without IMQ on its bypass list. Then comment `/queue` or set the label {label} again.",
    ),
    Reason.DEPLOYMENT_MISSING: ReasonText(
        "{base} asks for a deployment that has to succeed first.",
        "Have the branch deployed where {base} asks for it, then comment `/queue` or set the label {label} again.",
    ),
    Reason.WORKFLOWS_PERMISSION: ReasonText(
        "It changes workflows of GitHub Actions, and IMQ was not given the permission to land such changes.",
        "Accept the permission to write workflows in the settings of IMQ's installation, or merge this one by hand. "
        "While it is queued, it then lands by itself; otherwise comment `/queue` or set the label {label} again.",
    ),
    Reason.STACKED: ReasonText(
        "It is part of a stack of pull requests, and GitHub lets IMQ merge only pull requests outside of stacks.",
        "Merge the stack on GitHub, or take this pull request out of it. Then comment `/queue` or set the label "
        "{label} again.",
    ),
    Reason.FORK_NOT_EDITABLE: ReasonText(
        "It is behind {base}, and its fork does not let maintainers bring it up to date.",
        "Allow edits by maintainers, or update the branch with {base} yourself. Then comment `/queue` or set the "
        "label {label} again.",
    ),
    Reason.PERMISSION_MISSING: ReasonText(
        "IMQ lacks a permission that it needs for this.",
        "Grant the GitHub App the permission it asks for, then comment `/queue` or set the label {label} again.",
    ),
    Reason.REPOSITORY_ARCHIVED: ReasonText(
        "The repository was archived, so nothing in it can be changed.",
        "Unarchive it, then comment `/queue` or set the label {label} again.",
    ),
    Reason.REPOSITORY_GONE: ReasonText(
        "IMQ no longer has access to the repository.",
        "Install IMQ for it again, then comment `/queue` or set the label {label} again.",
    ),
    Reason.GITHUB_TROUBLE: ReasonText(
        "GitHub did not answer properly for longer than IMQ waits. The change itself is not the cause.",
        "When GitHub is well again, comment `/queue` or set the label {label} again.",
    ),
    Reason.INTERNAL_ERROR: ReasonText(
        "IMQ failed again and again while it worked on this pull request. The fault is IMQ's, not the author's.",
        "Look for the trace in IMQ's log, and report what it shows. "
        "Then comment `/queue` or set the label {label} again.",
    ),
    Reason.TREE_MISMATCH: ReasonText(
        "What landed on {base} is not exactly what was tested, so the queue stopped before anything else could land "
        "on top of it.",
        "Compare the landed commit with the tested one, and resume the queue once {base} is sound.",
    ),
    Reason.INVARIANT_BROKEN: ReasonText(
        "IMQ found its own record of this queue contradicting itself, and stopped the queue to be safe.",
        "Look for the contradiction in IMQ's log, and resume the queue.",
    ),
    Reason.PAUSED_BY_HAND: ReasonText(
        "A maintainer paused the queue for {base}.",
        "It goes on when a maintainer resumes it.",
    ),
    Reason.FROZEN: ReasonText(
        "{base} is frozen: nothing lands on it for now.",
        "It goes on by itself when the freeze is over.",
    ),
    Reason.BASE_RED: ReasonText(
        "{base} itself does not pass its checks, so nothing can be found out about changes to it.",
        "Give what mends {base} the label {fix}, and queue it: it is let through. The queue goes on by itself when "
        "{base} is green.",
    ),
    Reason.CHECKS_NOT_STARTING: ReasonText(
        "No check starts: the CI may be down, or slow.",
        "See whether its runners are up. The queue resumes by itself when a check starts.",
    ),
    Reason.MISCONFIGURED: ReasonText(
        "IMQ cannot use this repository's configuration, so its queues wait.",
        "Mend .github/imq.yml on {base}. The queue goes on by itself.",
    ),
}

MOVES: Mapping[Move, str] = {
    Move.AUTHOR: "The author's move:",
    Move.MAINTAINER: "A maintainer's move:",
    Move.OPERATOR: "The IMQ operator's move:",
    Move.NOBODY: "Nobody has to act.",
}
NO_FIX_LABEL = "that has `fixes_base` in `.github/imq.yml`"
"""In the place of a label's name, where the configuration has taken the usual one away."""
YOUR_MOVE = "Your move, {people}:"
ASK = " If you may not queue here, ask {queued_by}, who queued it before."
ASK_SOMEBODY = " If you may not queue here, ask somebody with write permission."
