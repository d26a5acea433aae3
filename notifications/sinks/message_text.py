"""The sentences and links of a message: the same for all kinds of sinks, in plain text."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import quote

from notifications.sinks.sink import EventKind, Message
from notifications.texts import headlines, reason_texts
from notifications.texts.history import CULPRIT_OUTCOMES
from queue_engine.domain.reasons import ReasonActor

HEADLINES: Mapping[str, str] = {
    "ejected": "❌ Removed from the queue for {base}",
    "landed_outside": "⚠️ {base} moved outside the queue",
    "base_red": "🔴 {base} fails its own checks",
    "base_green": "🟢 {base} passes its checks again",
    "culprit": "🔎 Why {base} fails",
    "landed": "✅ Landed on {base}",
    "queued": "⏳ Queued for {base}",
    "dequeued": "↩️ Dequeued from {base}",
    "paused": "⏸️ The queue for {base} is paused",
    "resumed": "▶️ The queue for {base} continues",
    "frozen": "❄️ {base} is frozen",
    "tree_mismatch": "⚠️ Not as tested: the queue for {base} is paused",
    "flake_seen": "🎲 Flaky checks on {base}",
    "dead_letter": "📭 A job of IMQ failed for good",
    "test": "👋 A test message of IMQ",
}
"""By kind of event."""

LANDED_OUTSIDE = "Someone merged or pushed to {base}, and IMQ did not test that."
BASE_GREEN = "IMQ tests and merges pull requests again."
LANDED = "The pull request landed."
QUEUED = "The pull request waits in the queue."
RESUMED = "The queue tests and merges again."
FLAKE = "These checks failed, then passed on the same tree. No pull request left the queue for it."
DEAD_LETTER = "IMQ gave up a job. To see it, run `imq jobs list`."
TEST = "This sink works."

LABEL = "that queues it"
"""Replaces the label's name: each repository chooses its own."""

_SHA = re.compile(r"[0-9a-f]{40,64}")
_NO_COMMIT = re.compile(r"0+")

_SENTENCES = {
    EventKind.LANDED_OUTSIDE: LANDED_OUTSIDE,
    EventKind.BASE_GREEN: BASE_GREEN,
    EventKind.LANDED: LANDED,
    EventKind.QUEUED: QUEUED,
    EventKind.RESUMED: RESUMED,
    EventKind.FLAKE: FLAKE,
    EventKind.DEAD_LETTER: DEAD_LETTER,
    EventKind.TEST: TEST,
}


@dataclass(frozen=True, slots=True)
class Site:
    """Where the links of messages lead. Both addresses are without a trailing slash."""

    github_url: str
    """GitHub's website."""
    public_url: str | None
    """The pages of IMQ, if people reach them."""


def headline(message: Message, base: str) -> str:
    """Return the headline; `base` is the branch as this kind of sink writes it."""
    return HEADLINES[message.kind.value].format(base=base)


def sentence(message: Message, base: str) -> str:
    """Return what happened, in a sentence."""
    if message.kind is EventKind.CULPRIT:
        return CULPRIT_OUTCOMES[message.outcome].format(base=base)
    if (fixed := _SENTENCES.get(message.kind)) is not None:
        return fixed.format(base=base)
    return _filled(reason_texts.REASONS[message.reason].sentence, base) if message.reason is not None else ""


def next_step(message: Message, base: str) -> str | None:
    """Return the next step of the person whose move it is; None if no person has to act."""
    if message.reason is None or message.whose_move == ReasonActor.NONE.value:
        return None
    return _filled(reason_texts.REASONS[message.reason].next_step, base)


def link(message: Message, site: Site) -> str | None:
    """Return the page on GitHub: the pull request, the pushed or tested commits, or the repository."""
    if message.repository is None:
        return None
    page = f"{site.github_url}/{quote(message.repository)}"
    if message.number is not None:
        return f"{page}/pull/{message.number}"
    if message.kind in {EventKind.LANDED_OUTSIDE, EventKind.FLAKE} and _SHA.fullmatch(message.sha or ""):
        before = message.before or ""
        if _SHA.fullmatch(before) and not _NO_COMMIT.fullmatch(before):
            return f"{page}/compare/{before}...{message.sha}"
        return f"{page}/commit/{message.sha}"
    return page


def queue_link(message: Message, site: Site) -> str | None:
    """Return the page of the queue, if people reach IMQ's pages."""
    if site.public_url is None or message.repository is None or message.base_branch is None:
        return None
    branch = quote(message.base_branch, safe="")
    return f"{site.public_url}/repositories/{quote(message.repository)}/branches/{branch}"


def _filled(text: str, base: str) -> str:
    return text.format(base=base, label=LABEL, fix=headlines.NO_FIX_LABEL)
