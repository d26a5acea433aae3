"""The sticky comment: one per pull request, found again by its hidden marker, edited in place. Pure."""

from notifications.answers import answered
from notifications.body import opening, paragraphs
from notifications.story import Events, folded, moved_since
from queue_engine.notice import CommandAnswer, Notice

MARKER = "<!-- imq:comment -->"
"""Stands first in IMQ's comment, unseen by readers; by it a comment is found whose id was lost in a crash."""


def render_comment(
    notice: Notice, *, events: Events = (), answer: CommandAnswer | None = None, marker: str = MARKER
) -> str:
    """The comment's Markdown: the notice, what became of the last commands, and the pull request's story, folded.

    An answer that was overtaken goes: "it waits" is not to be read below "it has landed". It stays well below GitHub's
    65,536 characters whatever these hold.
    """
    parts = [f"{marker}\n{opening(notice)}", *paragraphs(notice, mentions=True, events=events)]
    shown = None if answer is None or moved_since(events, answer.at) else answered(answer, notice)
    parts += [part for part in (shown, folded(events)) if part is not None]
    return "\n\n".join(parts) + "\n"
