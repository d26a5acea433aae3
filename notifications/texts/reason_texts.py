"""Sentences for each reason: the cause, and the next step."""

from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.domain.reasons import Reason


@dataclass(frozen=True, slots=True)
class ReasonText:
    """The sentence about the cause, and the next step."""

    sentence: str
    next_step: str


REQUEUE = " Then comment `/queue` or add the label {label}."


_BRANCHES: Mapping[Reason, ReasonText] = {
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
    Reason.DEPENDENCY_OPEN: ReasonText(
        "The description says `Depends-On:` another pull request, which is open.",
        "When the other one has landed, comment `/queue` or add the label {label}.",
    ),
    Reason.DEPENDENCY_HIDDEN: ReasonText(
        "The description names a pull request that IMQ cannot see.",
        "Correct the line in the description." + REQUEUE,
    ),
    Reason.DEPENDENCY_ENDED: ReasonText(
        "The description says `Depends-On:` another pull request, which was closed without landing.",
        "Open the other one again, or remove the line from the description." + REQUEUE,
    ),
    Reason.SET_WAITING: ReasonText(
        "The description says `Lands-With:` other pull requests, which are not all ready.",
        "When all of them are ready, comment `/queue` or add the label {label}.",
    ),
    Reason.SET_ENDED: ReasonText(
        "The description says `Lands-With:` another pull request, which was closed without landing.",
        "Open the other one again, or remove the line from each description." + REQUEUE,
    ),
    Reason.DEPENDENCY_CYCLE: ReasonText(
        "By `Depends-On:` in their descriptions, these pull requests wait for each other, so none of them can land.",
        "Remove one of these lines from a description." + REQUEUE,
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


CAUSED: Mapping[Reason, str] = {
    Reason.LABEL_REMOVED: "{who} removed the label{when}, so the pull request was dequeued.",
    Reason.LABEL_DELETED: "{who} deleted the label in the repository{when}, and so on each pull request.",
    Reason.UNQUEUED: "{who} dequeued the pull request{when}.",
    Reason.CLOSED: "{who} closed the pull request{when}.",
    Reason.MERGED_ELSEWHERE: "{who} merged the pull request outside the queue{when}.",
    Reason.DRAFT: "{who} made the pull request a draft{when}, and IMQ does not merge drafts.",
    Reason.BASE_CHANGED: "{who} changed the base branch{when}, after the pull request was queued.",
    Reason.HEAD_CHANGED: "{who} pushed new commits to the pull request{when}. IMQ lands only what was queued.",
    Reason.PERMISSION_LOST: "{who} queued the pull request, and may no longer queue here.",
    Reason.BLOCKED_BY_LABEL: "{who} added a label that keeps the pull request out of the queue{when}.",
    Reason.BLOCKED_BY_TITLE: "{who} changed the title{when}. It matches a pattern that keeps the pull request out of "
    "the queue.",
    Reason.LABEL_MISSING: "{who} removed a label that {base} requires{when}.",
    Reason.AUTO_MERGE_ENABLED: "{who} enabled GitHub's auto-merge{when}, which would merge the pull request past the "
    "queue for {base}.",
    Reason.APPROVAL_MISSING: "{who} dismissed an approval{when}. {base} requires more approvals than the pull request "
    "has.",
    Reason.CODE_OWNER_MISSING: "{who} dismissed an approval{when}. {base} requires an approval from a code owner.",
    Reason.CHANGES_REQUESTED: "{who} requested changes{when}.",
}
"""In place of a reason's sentence where IMQ knows who caused it; `when` is how long after IMQ's own update."""

WHO, BOT = "{login}", "The bot {login}"
AFTER_UPDATE = " {time} after IMQ's update"

NEW_COMMITS = "{who} pushed {pushed} after {queued_by} queued {queued}{when}. IMQ lands only what was queued."
"""In place of the sentence about a push, where the queued head is known."""
UNPROVED_COMMITS = (
    "IMQ pushed {pushed} itself after {queued_by} queued {queued}, but cannot prove that: its database is older, for "
    "example because it was restored. IMQ lands only what was queued."
)
"""The same of IMQ's own update, which GitHub names and IMQ does not know."""
SOMEBODY, SOME_COMMITS = "Somebody", "new commits"

REASONS: Mapping[Reason, ReasonText] = {
    **_BRANCHES,
    Reason.LABEL_REMOVED: ReasonText(
        "The pull request no longer has the label {label}, so it was dequeued.",
        "To queue it again, comment `/queue` or add the label {label}.",
    ),
    Reason.LABEL_DELETED: ReasonText(
        "Somebody deleted the label {label} in the repository, and so on each pull request.",
        "To queue it again, comment `/queue`, which creates the label {label} again, or create and add it by hand.",
    ),
    Reason.UNQUEUED: ReasonText(
        "Someone dequeued the pull request.",
        "To queue it again, comment `/queue` or add the label {label}.",
    ),
    Reason.NOT_QUEUED: ReasonText(
        "The pull request is no longer queued: IMQ's database was restored or replaced, or the repository was in "
        "shadow mode.",
        "To queue it again, comment `/queue` or add the label {label}.",
    ),
    Reason.SHADOW_MODE: ReasonText(
        "The repository is in shadow mode: IMQ only reports what it would do, and writes nothing.",
        "To let IMQ merge, remove `mode: shadow` from `.github/imq.yml` on the default branch.",
    ),
    Reason.CLOSED: ReasonText(
        "Someone closed the pull request.",
        "To land it, reopen it. Then comment `/queue` or add the label {label}.",
    ),
    Reason.BASE_DELETED: ReasonText(
        "GitHub closed the pull request, because {base} was deleted.",
        "To land it, restore {base} and reopen it, or open a new pull request for another base branch." + REQUEUE,
    ),
    Reason.LANDED_WITH_ANOTHER: ReasonText(
        "All its commits landed with another queued pull request.",
        "The pull request is merged.",
    ),
    Reason.MERGED_ELSEWHERE: ReasonText(
        "The pull request is merged, and IMQ has no record of merging it itself.",
        "The pull request is merged.",
    ),
    Reason.DRAFT: ReasonText(
        "The pull request is a draft, and IMQ does not merge drafts.",
        "Mark it as ready for review." + REQUEUE,
    ),
    Reason.BASE_CHANGED: ReasonText(
        "The base branch changed after the pull request was queued.",
        "To land it on the new base branch, comment `/queue` or add the label {label}.",
    ),
    Reason.BASE_CHANGED_AT_MERGE: ReasonText(
        "The base branch changed while IMQ merged the pull request. GitHub merged it into another branch than {base}, "
        "where IMQ had not tested it.",
        "Check that branch, and revert the merge if it should not be there.",
    ),
    Reason.BASE_REWRITTEN: ReasonText(
        "IMQ had merged {base} into the pull request. Then somebody moved {base} by force, and it no longer has the "
        "commit that IMQ merged. Landing the pull request would bring that commit back.",
        "Remove that commit from the branch, for example by a rebase onto {base}." + REQUEUE,
    ),
    Reason.HEAD_CHANGED: ReasonText(
        "Somebody pushed new commits to the pull request. IMQ lands only what was queued.",
        "If the new commits should land too, comment `/queue` or add the label {label}.",
    ),
    Reason.PERMISSION_LOST: ReasonText(
        "The person who queued the pull request may no longer queue here.",
        "If it is ready to land, comment `/queue` or add the label {label}.",
    ),
    Reason.LABEL_WITHOUT_RIGHT: ReasonText(
        "Queueing needs write access, which the person who asked does not have.",
        "Someone with write access may queue it: comment `/queue` or add the label {label}.",
    ),
    Reason.LABEL_NOT_RECEIVED: ReasonText(
        "The label {label} was set while IMQ was in shadow mode, or IMQ missed its webhook. The pull request may have "
        "changed since, and IMQ cannot tell which commits the label was for.",
        "Review the current commits." + REQUEUE,
    ),
    Reason.QUEUE_FULL: ReasonText(
        "The queue for {base} is full. The pull request waits for room.",
        "Keep the label {label} to keep its position.",
    ),
    Reason.RUNNERS_BUSY: ReasonText(
        "It waits for a free runner of those that its checks need.",
        "Wait: IMQ tests it when one is free.",
    ),
    Reason.FORK_DELETED: ReasonText(
        "The head repository no longer exists, so IMQ can neither update nor test the branch.",
        "Push the branch to an existing repository, and open a new pull request from there.",
    ),
    Reason.NOT_ALLOWED_TO_QUEUE: ReasonText(
        "The configuration limits who may queue for {base}, and the person who asked may not.",
        "Someone whom `who_may_queue` in `.github/imq.yml` allows may queue it: comment `/queue` or add the label "
        "{label}.",
    ),
    Reason.BRANCH_NOT_SERVED: ReasonText(
        "The configuration has no queue for {base}.",
        "To use IMQ, enable {base} in `.github/imq.yml`." + REQUEUE + " Otherwise merge it yourself.",
    ),
    Reason.BLOCKED_BY_LABEL: ReasonText(
        "The pull request has a label that keeps it out of the queue.",
        "When it is ready to land, remove that label." + REQUEUE,
    ),
    Reason.BLOCKED_BY_TITLE: ReasonText(
        "The title matches a pattern that keeps the pull request out of the queue.",
        "When it is ready to land, change the title." + REQUEUE,
    ),
    Reason.BLOCKED_BY_AUTHOR: ReasonText(
        "The configuration for {base} does not let pull requests of this author into the queue.",
        "To let this author in, change `require.authors` or `blocking.authors` in `.github/imq.yml`." + REQUEUE,
    ),
    Reason.BLOCKED_BY_FILES: ReasonText(
        "The pull request changes files that keep it out of the queue for {base}, or more files than GitHub lists.",
        "Move these changes to a pull request of their own, and merge that one yourself." + REQUEUE,
    ),
    Reason.LABEL_MISSING: ReasonText(
        "The pull request lacks a label that {base} requires.",
        "When it is ready to land, add that label." + REQUEUE,
    ),
    Reason.REVIEW_REQUESTED: ReasonText(
        "Somebody whose review is requested has not reviewed the pull request yet.",
        "Wait for the review, or remove the request." + REQUEUE,
    ),
    Reason.HOLD_TIMED_OUT: ReasonText(
        "The pull request waited too long for room in the queue for {base}.",
        "Open the page of the queue: it says what delays it." + REQUEUE,
    ),
    Reason.NOT_READY_TIMED_OUT: ReasonText(
        "The pull request waited too long outside the queue for {base}, and did not become ready.",
        "Get it ready to land." + REQUEUE,
    ),
    Reason.ASKED_TOO_OFTEN: ReasonText(
        "Someone repeatedly added the label {label} to commits that IMQ had rejected. For a while, IMQ ignores the "
        "label and answers only `/queue`.",
        "Push a fix, or wait." + REQUEUE,
    ),
    Reason.CONFLICT: ReasonText(
        "GitHub cannot merge it: the pull request and {base} changed the same places.",
        "Merge {base} into your branch, resolve the conflicts, and push." + REQUEUE,
    ),
    Reason.CHECKS_FAILED: ReasonText(
        "A required check failed.",
        "Push a fix, or rerun the check if it is flaky." + REQUEUE,
    ),
    Reason.CHECKS_TIMED_OUT: ReasonText(
        "A required check did not finish in time.",
        "Open the check: does it hang, wait for a runner, or not run at all? Fix that, or rerun it." + REQUEUE,
    ),
    Reason.NO_CHECKS: ReasonText(
        "No check reported, and {base} requires none, so nothing tested this change.",
        "Run a check on the pull request, or require one for {base}." + REQUEUE,
    ),
    Reason.CHECKS_BROKE_DOWN: ReasonText(
        "A required check ended without testing this change.",
        "Open the check: its log says what stopped it. Fix that, or rerun it." + REQUEUE,
    ),
    Reason.CHECKS_NOT_REPEATED: ReasonText(
        "A check ran on the queued commit, but not after the update with {base}.",
        "Require the checks that count for {base}, or list this one under `checks.ignored` in `.github/imq.yml`."
        + REQUEUE,
    ),
    Reason.CHECK_ABSENT: ReasonText(
        "A required check did not report on the head of the pull request, and nothing runs that could report it.",
        "Push a commit, or run the check on this head." + REQUEUE,
    ),
    Reason.TESTED_ON_ANOTHER_BASE: ReasonText(
        "The base branch was changed or moved back after the checks of this head began, so they tested another merge.",
        "Push a commit, so that CI tests it on {base}." + REQUEUE,
    ),
    Reason.WORKFLOW_WITHOUT_JOBS: ReasonText(
        "A workflow run ended before any of its jobs began, so a required check cannot report. GitHub does that when "
        "it cannot read the workflow file.",
        "Open the run, and fix the workflow file. If the file is fine, rerun the workflow." + REQUEUE,
    ),
    Reason.WORKFLOWS_UNAPPROVED: ReasonText(
        "GitHub runs these workflows only after a maintainer approves them.",
        "Approve the workflow runs." + REQUEUE,
    ),
    Reason.BASE_STAYS_RED: ReasonText(
        "{base} failed its own checks for too long, so IMQ could not test this change.",
        "Fix {base}." + REQUEUE,
    ),
    Reason.MERGEABLE_UNKNOWN: ReasonText(
        "GitHub did not report in time whether it can merge the pull request.",
        "To try again, comment `/queue` or add the label {label}.",
    ),
    Reason.UPDATE_REFUSED: ReasonText(
        "GitHub refused to update the branch with {base}.",
        "Merge {base} into the branch, or rebase it, as its rules allow. On a fork allow edits by maintainers."
        + REQUEUE,
    ),
    Reason.HEAD_PROTECTED: ReasonText(
        "The head branch is behind {base}. IMQ does not update it, because it is protected and other pull requests "
        "target it.",
        "Merge {base} into the head branch with a pull request." + REQUEUE,
    ),
    Reason.HEAD_LINEAR: ReasonText(
        "The branch is behind {base}, and its rules forbid merge commits, with which IMQ updates branches.",
        "Rebase the branch onto {base} and push it. A maintainer can let IMQ bypass that rule for head branches, or "
        "limit it to {base}." + REQUEUE,
    ),
    Reason.UPDATE_TIMED_OUT: ReasonText(
        "GitHub accepted the update with {base}, but the new commit did not appear in time.",
        "Merge {base} into the branch." + REQUEUE,
    ),
    Reason.BASE_KEEPS_MOVING: ReasonText(
        "Other pushes to {base} outdated every check run of the pull request.",
        "Land changes on {base} only through the queue." + REQUEUE,
    ),
    Reason.REFUSED_BY_RULES: ReasonText(
        "GitHub refused the merge by the rules of {base}.",
        "Meet the requirement that GitHub names. A check may fail on GitHub's test merge commit alone." + REQUEUE,
    ),
    Reason.NATIVE_QUEUE_REQUIRED: ReasonText(
        "{base} requires GitHub's merge queue, so IMQ cannot merge into it.",
        "To use IMQ, remove that rule." + REQUEUE + " Otherwise use GitHub's merge queue.",
    ),
    Reason.OWN_CHECK_REQUIRED: ReasonText(
        "{base} requires a check of IMQ's own App that IMQ never reports.",
        "Require the check `IMQ` instead, or remove that check from protection and rulesets." + REQUEUE,
    ),
    Reason.AUTO_MERGE_ENABLED: ReasonText(
        "GitHub's auto-merge is enabled, which would merge the pull request past the queue for {base}.",
        "Disable auto-merge on the pull request." + REQUEUE,
    ),
    Reason.APPROVAL_MISSING: ReasonText(
        "{base} requires more approvals than the pull request has.",
        "Ask for a review. Once it is approved, comment `/queue` or add the label {label}.",
    ),
    Reason.CHANGES_REQUESTED: ReasonText(
        "A reviewer requested changes.",
        "Make the changes, and ask the reviewer to approve." + REQUEUE,
    ),
    Reason.CODE_OWNER_MISSING: ReasonText(
        "{base} requires an approval from a code owner.",
        "Request a review from a code owner." + REQUEUE,
    ),
    Reason.CONVERSATIONS_UNRESOLVED: ReasonText(
        "{base} requires resolved conversations, and some are open.",
        "Resolve the open conversations." + REQUEUE,
    ),
    Reason.SIGNATURES_MISSING: ReasonText(
        "{base} requires signed commits, and some commits lack a signature.",
        "Sign the commits and push them." + REQUEUE,
    ),
    Reason.LINEAR_HISTORY_REQUIRED: ReasonText(
        "{base} requires a linear history, but the pull request would land with a merge commit.",
        "Allow squash or rebase merging, or choose one of them." + REQUEUE,
    ),
    Reason.METHOD_NOT_ALLOWED: ReasonText(
        "{base} does not allow the chosen merge method.",
        "Allow it in the repository's settings, or choose another method." + REQUEUE,
    ),
    Reason.COMMIT_RULES: ReasonText(
        "A rule for the message, the author or the committer of commits forbids a commit of this merge.",
        "Change that commit. If it is the commit that lands, a maintainer sets `merge.title` and `merge.body` in "
        "`.github/imq.yml` by the rule." + REQUEUE,
    ),
    Reason.METHODS_CONTRADICT: ReasonText(
        "The labels of the pull request name two merge methods.",
        "Keep one of these labels, and remove the others." + REQUEUE,
    ),
    Reason.REBASE_IMPOSSIBLE: ReasonText(
        "GitHub cannot rebase the commits of the pull request onto {base}, for example because it has merge commits "
        "with conflicts.",
        "Rebase it by hand, or choose another method." + REQUEUE,
    ),
    Reason.BRANCH_LOCKED: ReasonText(
        "{base} is locked.",
        "Unlock {base}." + REQUEUE,
    ),
    Reason.PUSH_RESTRICTED: ReasonText(
        "{base} restricts who can push, and IMQ cannot.",
        "Allow IMQ to push to {base} in its protection rules." + REQUEUE,
    ),
    Reason.RULESET_BYPASSED: ReasonText(
        "IMQ may bypass a ruleset of {base}, so GitHub would not enforce its rules. IMQ cannot check them itself.",
        "Let IMQ bypass only a ruleset that restricts who may update {base}. "
        "Move all other rules to a ruleset that IMQ cannot bypass." + REQUEUE,
    ),
    Reason.DEPLOYMENT_MISSING: ReasonText(
        "{base} requires a successful deployment.",
        "Deploy the branch to the required environment." + REQUEUE,
    ),
    Reason.WORKFLOWS_PERMISSION: ReasonText(
        "The pull request changes GitHub Actions workflows, and IMQ may not merge such changes.",
        "Grant IMQ's App the permission to write workflows, or merge the pull request yourself. If it is no longer "
        "queued, comment `/queue` or add the label {label}.",
    ),
    Reason.FORK_NOT_EDITABLE: ReasonText(
        "The branch is behind {base}, and its fork does not allow edits by maintainers.",
        "Allow edits by maintainers, or merge {base} into the branch." + REQUEUE,
    ),
    Reason.FORK_OF_ORGANISATION: ReasonText(
        "The branch is behind {base}, and IMQ cannot update it: it is in a fork that an organisation owns. GitHub lets "
        "maintainers edit only forks of personal accounts.",
        "Merge {base} into the branch and push it, or open the pull request from a fork of a personal account."
        + REQUEUE,
    ),
    Reason.PERMISSION_MISSING: ReasonText(
        "IMQ's GitHub App lacks a permission.",
        "Grant the App that permission." + REQUEUE,
    ),
    Reason.REPOSITORY_ARCHIVED: ReasonText(
        "The repository is archived.",
        "Unarchive the repository." + REQUEUE,
    ),
    Reason.REPOSITORY_GONE: ReasonText(
        "IMQ can no longer access the repository.",
        "Install IMQ's GitHub App on the repository." + REQUEUE,
    ),
    Reason.GITHUB_TROUBLE: ReasonText(
        "GitHub failed for longer than IMQ retries. Your change did not cause this.",
        "When GitHub works again, comment `/queue` or add the label {label}.",
    ),
    Reason.INTERNAL_ERROR: ReasonText(
        "IMQ failed repeatedly on this pull request. Your change did not cause this.",
        "Look up the trace in IMQ's log, and report it." + REQUEUE,
    ),
    Reason.TREE_MISMATCH: ReasonText(
        "The tree that landed on {base} is not the one that CI tested, so IMQ paused the queue.",
        "Compare the landed commit with the tested one, repair {base} if needed, and comment `/resume`.",
    ),
    Reason.INVARIANT_BROKEN: ReasonText(
        "IMQ found a contradiction in its records of this queue, and paused the queue.",
        "Look up the contradiction in IMQ's log. Then comment `/resume` or run `imq resume`.",
    ),
    Reason.PAUSED_BY_HAND: ReasonText(
        "A maintainer paused the queue for {base}.",
        "The queue continues when a maintainer comments `/resume`.",
    ),
    Reason.FROZEN: ReasonText(
        "{base} is frozen, so nothing lands on it.",
        "The queue continues when the freeze ends.",
    ),
    Reason.GITHUB_REFUSES: ReasonText(
        "GitHub refuses IMQ's requests in this repository, or starts none of its jobs.",
        "IMQ retries, and the queue continues by itself when GitHub accepts them.",
    ),
    Reason.BASE_RED: ReasonText(
        "{base} fails its own checks, so IMQ cannot test changes against it.",
        "Label the fix {fix} and queue it: it may land while the queue is paused. The queue continues when {base} "
        "passes.",
    ),
    Reason.TIP_UNTESTED: ReasonText(
        "A train stopped before all its members had landed, so {base} has to pass its checks before anything else "
        "lands.",
        "The queue continues when {base} passes, or when a maintainer comments `/resume`.",
    ),
    Reason.CHECKS_NOT_STARTING: ReasonText(
        "No check starts, so CI may be down or slow.",
        "Check that the CI runners are up. The queue continues when a check starts.",
    ),
    Reason.CHECK_NEVER_REPORTED: ReasonText(
        "{base} requires a check that no recent commit of this repository has.",
        "Correct the check's name or App in the rules of {base} or in `.github/imq.yml`, or set up its CI. The queue "
        "continues when the check reports, or is no longer required.",
    ),
    Reason.MISCONFIGURED: ReasonText(
        "IMQ cannot use this repository's configuration, so it paused the queue.",
        "Fix `.github/imq.yml` on {base}. The queue then continues.",
    ),
    Reason.CI_SILENT_ON_CANDIDATES: ReasonText(
        "A required check did not start on a branch with several pull requests, so IMQ tests one at a time.",
        "Let the check's workflow run on pushes to `imq/**`: `imq validate --against` prints the lines to add.",
    ),
    Reason.CI_SKIPPED_ON_CANDIDATES: ReasonText(
        "A required check was skipped on a branch with several pull requests, so IMQ tests one at a time.",
        "Let the check's job run on `imq/**` too: `imq validate --against` names its condition.",
    ),
    Reason.CI_UNPROVEN_ON_CANDIDATES: ReasonText(
        "A required check might pass untested on a branch with several pull requests, so IMQ tests one at a time.",
        "Use `trains.candidates: auto`, or change what `imq validate --against` names in the workflow files.",
    ),
    Reason.CHECK_FAILS_ON_CANDIDATES: ReasonText(
        "A required check passed on a pull request and failed on a branch with that pull request alone, so IMQ tests "
        "one at a time.",
        "If the check judges titles, labels or commits, put it into a job without a checkout. IMQ then takes its "
        "result from the head of each pull request.",
    ),
    Reason.CANDIDATES_REFUSED: ReasonText(
        "GitHub refused a branch on which IMQ tests several pull requests, so IMQ tests one at a time.",
        "Exclude `imq/**/*` and `imq-build/**/*` from that rule, or add IMQ's App to its bypass list.",
    ),
    Reason.CANDIDATE_LANDING_REFUSED: ReasonText(
        "GitHub's rules let IMQ land no train on {base}, so it tests one pull request after the other.",
        "Add IMQ's App to the bypass list of that rule, with the mode `exempt` or `always`.",
    ),
}


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
    Reason.DEPENDENCY_OPEN: ReasonText(
        "The description says `Depends-On:` another pull request, and this one lands after that.",
        "Wait until the other one has landed, or remove the line from the description.",
    ),
    Reason.SET_WAITING: ReasonText(
        "The description says `Lands-With:` other pull requests. Once all are ready, they land one after the other, "
        "which is not atomic.",
        "Wait until the others are ready. Each has to be queued, and to name all others.",
    ),
    Reason.DEPENDENCY_HIDDEN: ReasonText(
        "The description names a pull request that IMQ cannot see. None has this name now, or IMQ, the "
        "author or the person who queued this one may not read its repository.",
        "Correct the line in the description, or remove it.",
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
    Reason.BLOCKED_BY_FILES: ReasonText(
        "The pull request changes files that keep it out of the queue for {base}, or more files than GitHub lists.",
        "Move these changes to a pull request of their own.",
    ),
    Reason.LABEL_MISSING: ReasonText(
        "The pull request lacks a label that {base} requires.", "When it is ready to land, add that label."
    ),
    Reason.REVIEW_REQUESTED: ReasonText(
        "Somebody whose review is requested has not reviewed the pull request yet.",
        "Wait for the review, or remove the request.",
    ),
    Reason.APPROVAL_MISSING: ReasonText(
        "{base} requires more approvals than the pull request has.", "Ask for a review."
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
    Reason.TESTED_ON_ANOTHER_BASE: ReasonText(
        "The base branch was changed or moved back after the checks of this head began, so they tested another merge.",
        "Push a commit, so that CI tests it on {base}.",
    ),
}

JOINS_BY_ITSELF = "IMQ queues it by itself as soon as nothing is missing: it needs no new label."
LACKS_ALSO = "It also lacks this:"
FAILING = "Failing checks:"
FAILED_JOBS = "(failed jobs: {jobs})"
HOW_TO_END = "To end this wait, comment `/unqueue` or remove the label {label}."
