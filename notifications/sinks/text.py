"""The sentences and links of a message: the same for all kinds of sinks, in plain text."""

import re
from dataclasses import dataclass
from urllib.parse import quote

from notifications import texts
from notifications.sinks.message import Message
from notifications.sinks.sink import EventKind
from notifications.texts import sinks as sink_texts
from queue_engine.domain.reasons import ReasonActor

_SHA = re.compile(r"[0-9a-f]{40,64}")
_NO_COMMIT = re.compile(r"0+")

_SENTENCES = {
    EventKind.LANDED_OUTSIDE: sink_texts.LANDED_OUTSIDE,
    EventKind.BASE_GREEN: sink_texts.BASE_GREEN,
    EventKind.LANDED: sink_texts.LANDED,
    EventKind.QUEUED: sink_texts.QUEUED,
    EventKind.RESUMED: sink_texts.RESUMED,
    EventKind.DEAD_LETTER: sink_texts.DEAD_LETTER,
    EventKind.TEST: sink_texts.TEST,
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
    return sink_texts.HEADLINES[message.kind.value].format(base=base)


def sentence(message: Message, base: str) -> str:
    """Return what happened, in a sentence."""
    if (fixed := _SENTENCES.get(message.kind)) is not None:
        return fixed.format(base=base)
    return _filled(texts.REASONS[message.reason].sentence, base) if message.reason is not None else ""


def next_step(message: Message, base: str) -> str | None:
    """Return the next step of the person whose move it is; None if no person has to act."""
    if message.reason is None or message.whose_move == ReasonActor.NONE.value:
        return None
    return _filled(texts.REASONS[message.reason].next_step, base)


def link(message: Message, site: Site) -> str | None:
    """Return the page on GitHub: the pull request, the pushed commits, or the repository."""
    if message.repository is None:
        return None
    page = f"{site.github_url}/{quote(message.repository)}"
    if message.number is not None:
        return f"{page}/pull/{message.number}"
    if message.kind is EventKind.LANDED_OUTSIDE and _SHA.fullmatch(message.sha or ""):
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
    return text.format(base=base, label=sink_texts.LABEL, fix=sink_texts.FIX_LABEL)
