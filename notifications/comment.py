"""The sticky comment: one per pull request, found again by its hidden marker, edited in place. Pure."""

from notifications.body import headline, paragraphs
from queue_engine.notice import Notice

MARKER = "<!-- imq:comment -->"
"""Stands first in IMQ's comment, unseen by readers; by it a comment is found whose id was lost in a crash."""


def render_comment(notice: Notice, *, marker: str = MARKER) -> str:
    """The comment's Markdown. It stays well below GitHub's 65,536 characters whatever the notice holds."""
    return "\n\n".join([f"{marker}\n**{headline(notice)}**", *paragraphs(notice, mentions=True)]) + "\n"
