"""Headlines and titles of each kind of notice."""

from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.domain.notice import NoticeKind
from queue_engine.domain.reasons import Reason, ReasonActor


@dataclass(frozen=True, slots=True)
class KindText:
    """The headline of a comment, and the title of a check run, which is plain text without a placeholder."""

    headline: str
    title: str


KINDS: Mapping[NoticeKind, KindText] = {
    NoticeKind.QUEUED: KindText("⏳ Queued for {base}", "Queued"),
    NoticeKind.UPDATING: KindText("⏳ Updating the branch, first in the queue for {base}", "Updating the branch"),
    NoticeKind.CHECKING: KindText("⏳ Waiting for checks, first in the queue for {base}", "Waiting for checks"),
    NoticeKind.READY: KindText("⏳ Checks passed, merging into {base}", "Checks passed, merging"),
    NoticeKind.LANDED: KindText("✅ Landed on {base}", "Landed"),
    NoticeKind.FAILED: KindText("❌ Removed from the queue for {base}", "Removed from the queue"),
    NoticeKind.CANCELLED: KindText("↩️ Dequeued from {base}", "Dequeued"),
    NoticeKind.REFUSED: KindText("↩️ Not queued for {base}", "Not queued"),
    NoticeKind.HELD: KindText("⏳ Waiting for room in the queue for {base}", "Waiting for room in the queue"),
    NoticeKind.NOT_READY: KindText("⏳ Not queued for {base} yet: something is missing", "Not ready yet for the queue"),
    NoticeKind.BLOCKED: KindText("⏸️ Waiting for a permission to land on {base}", "Waiting for a permission"),
    NoticeKind.PAUSED: KindText("⏸️ The queue for {base} is paused", "The queue is paused"),
    NoticeKind.ANSWERED: KindText("💬 Reply to a command", "Reply to a command"),
}

WHY: Mapping[Reason, str] = {
    Reason.CHECKS_FAILED: ": a required check failed",
    Reason.CHECKS_TIMED_OUT: ": a required check did not finish",
    Reason.CHECKS_BROKE_DOWN: ": a required check ended without a result",
    Reason.CHECK_ABSENT: ": a required check never reported",
    Reason.TESTED_ON_ANOTHER_BASE: ": its checks ran on another base",
    Reason.HEAD_CHANGED: ": new commits were pushed",
    Reason.CONFLICT: ": merge conflicts",
    Reason.APPROVAL_MISSING: ": an approval is missing",
    Reason.CODE_OWNER_MISSING: ": a code owner's approval is missing",
    Reason.CHANGES_REQUESTED: ": a reviewer requested changes",
    Reason.CONVERSATIONS_UNRESOLVED: ": conversations are open",
    Reason.DRAFT: ": it is a draft",
    Reason.LABEL_REMOVED: ": it no longer has its label",
    Reason.LABEL_DELETED: ": its label was deleted",
    Reason.UNQUEUED: ": somebody asked for that",
    Reason.CLOSED: ": it was closed",
    Reason.MERGED_ELSEWHERE: ": it is merged already",
    Reason.BASE_CHANGED: ": its base branch changed",
    Reason.BASE_REWRITTEN: ": its base branch was moved by force",
    Reason.LABEL_WITHOUT_RIGHT: ": the label needs write access",
    Reason.NO_CHECKS: ": nothing tested it",
    Reason.GITHUB_TROUBLE: ": GitHub failed",
    Reason.MERGEABLE_UNKNOWN: ": GitHub did not answer",
}
"""What ends the headline of a pull request that left its queue, or was not queued."""

WAITS_FOR_RUNNER = KindText("⏸️ Waiting for a free runner, to land on {base}", "Waiting for a free runner")
"""Replaces the text for an entry that is set aside, if it waits for a scarce runner."""

BLOCKED_BY: Mapping[Reason, KindText] = {
    Reason.BASE_RED: KindText("⏸️ {base} is broken, not your pull request", "The base branch is broken"),
    Reason.FROZEN: KindText("⏸️ {base} is frozen", "The base branch is frozen"),
    Reason.CHECK_NEVER_REPORTED: KindText(
        "⏸️ Nothing can land on {base}: a required check never reports", "A required check never reports"
    ),
    Reason.CHECKS_NOT_STARTING: KindText("⏸️ The queue for {base} waits: no check starts", "No check starts"),
    Reason.TREE_MISMATCH: KindText(
        "⏸️ The queue for {base} is paused: what landed is not what was tested", "The queue is paused"
    ),
    Reason.MISCONFIGURED: KindText(
        "⏸️ The queue for {base} is paused: its configuration is invalid", "The configuration is invalid"
    ),
    Reason.GITHUB_REFUSES: KindText("⏸️ The queue for {base} waits for GitHub", "Waiting for GitHub"),
}
"""Replace the text for a pause by its reason."""

MISMATCH = KindText("⚠️ Not as tested: landed on {base}", "Not as tested: landed")
"""Replaces the text for a landing when the landed tree is not the tested one."""

SUPERSEDED_TITLE = "Superseded by a newer commit"
SUPERSEDED_SUMMARY = "The branch has a newer commit, which IMQ tests and merges. See the check run of that commit."
"""For the check run of a head that IMQ or somebody else has replaced."""


NEXT_STEP_FOR: Mapping[ReasonActor, str] = {
    ReasonActor.AUTHOR: "Next step for the author:",
    ReasonActor.MAINTAINER: "Next step for a maintainer:",
    ReasonActor.OPERATOR: "Next step for the IMQ operator:",
    ReasonActor.NONE: "Nothing to do.",
}
NO_FIX_LABEL = "with the label that has `fixes_base` in `.github/imq.yml`"
"""Replaces the label's name where the configuration has no such label."""
NEXT_STEP_FOR_PEOPLE = "Next step, {people}:"
NEXT_STEP_FOR_PEOPLE_OR_MAINTAINER = "Next step, {people} or a maintainer:"
ASK = " If you cannot, ask {queued_by}, who queued it before."
ASK_SOMEBODY = " If you cannot, ask someone with write access."
