"""Headlines of the messages to sinks."""

from collections.abc import Mapping

HEADLINES: Mapping[str, str] = {
    "ejected": "❌ Removed from the queue for {base}",
    "landed_outside": "⚠️ {base} moved outside the queue",
    "base_red": "🔴 {base} is failing its own checks",
    "base_green": "🟢 {base} passes its checks again",
    "landed": "✅ Landed on {base}",
    "queued": "⏳ Queued for {base}",
    "dequeued": "↩️ Dequeued from {base}",
    "paused": "⏸️ The queue for {base} is paused",
    "resumed": "▶️ The queue for {base} continues",
    "frozen": "❄️ {base} is frozen",
    "tree_mismatch": "⚠️ Not as tested: the queue for {base} is paused",
    "dead_letter": "📭 A job of IMQ failed for good",
    "test": "👋 A test message of IMQ",
}
"""By kind of event."""

LANDED_OUTSIDE = "Someone merged or pushed to {base}, and IMQ did not test that."
BASE_GREEN = "IMQ tests and merges pull requests again."
LANDED = "The pull request landed."
QUEUED = "The pull request waits in the queue."
RESUMED = "The queue tests and merges again."
DEAD_LETTER = "IMQ gave up a job. To see it, run `imq jobs list`."
TEST = "This sink works."

LABEL = "that queues it"
"""Replaces the label's name: each repository chooses its own."""
FIX_LABEL = "with the label that has `fixes_base` in `.github/imq.yml`"
