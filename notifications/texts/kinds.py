"""What each kind of notice is called."""

from collections.abc import Mapping
from dataclasses import dataclass

from queue_engine.notice import NoticeKind


@dataclass(frozen=True, slots=True)
class KindText:
    """What one kind of notice is called: in the comment's headline, and in the check run's title.

    The title is plain text on GitHub, so no placeholder may stand in it.
    """

    headline: str
    title: str


KINDS: Mapping[NoticeKind, KindText] = {
    NoticeKind.QUEUED: KindText("⏳ Queued for {base}", "Queued"),
    NoticeKind.UPDATING: KindText("⏳ First in line: being brought up to date with {base}", "Being brought up to date"),
    NoticeKind.CHECKING: KindText("⏳ First in line for {base}: waiting for checks", "Waiting for checks"),
    NoticeKind.READY: KindText("⏳ Checks have passed: merging into {base}", "Checks have passed: merging"),
    NoticeKind.LANDED: KindText("✅ Landed on {base}", "Landed"),
    NoticeKind.FAILED: KindText("❌ Left the queue for {base} without landing", "Left the queue"),
    NoticeKind.CANCELLED: KindText("↩️ Taken out of the queue for {base}", "Taken out of the queue"),
    NoticeKind.REFUSED: KindText("↩️ Not queued for {base}", "Not queued"),
    NoticeKind.HELD: KindText("⏳ Waiting for a place in the queue for {base}", "Waiting for a place in the queue"),
    NoticeKind.BLOCKED: KindText("⏸️ Waiting for a permission to land on {base}", "Waiting for a permission"),
    NoticeKind.PAUSED: KindText("⏸️ The queue for {base} is paused", "The queue is paused"),
    NoticeKind.ANSWERED: KindText("💬 Answer to a command", "Answer to a command"),
}

MISMATCH = KindText("⚠️ Not as tested: merged into {base}", "Not as tested: merged")
"""In the place of the words for a landing, when the landed tree is not the tested one."""

SUPERSEDED_TITLE = "Superseded by a newer commit"
SUPERSEDED_SUMMARY = (
    "The branch was updated. What is tested and merged is its newer commit, which has a run of its own."
)
