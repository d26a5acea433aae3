"""The sticky comment: one per pull request, found again by its hidden marker. Pure.

GitHub notifies nobody of an edit (isaacs/github #310, bradfitz/issue-tracker-behaviors #8). So an outcome that somebody
must act on is a new comment, in the place of the old one; everything else edits the comment that stands.
"""

from notifications.render.answers import answered
from notifications.render.body import opening, paragraphs
from notifications.render.history import Events, details_block, moved_since
from queue_engine.domain.notice import FIRST_LINE, MARKER, WAITING, CommandReply, Notice, NoticeKind, kind_of
from queue_engine.domain.reasons import REASONS, ReasonActor

__all__ = ["MARKER", "content", "kind_of", "must_act", "render_comment"]


def render_comment(
    notice: Notice, *, events: Events = (), answer: CommandReply | None = None, marker: str = MARKER
) -> str:
    """The comment's Markdown: the notice, what became of the last commands, and the pull request's story, folded.

    An answer that was overtaken goes: "it waits" is not to be read below "it has landed". It stays well below GitHub's
    65,536 characters whatever these hold. Of a pull request that landed one line says so; the rest is folded.
    """
    told = paragraphs(notice, mentions=True, events=events)
    shown = None if answer is None or moved_since(events, answer.at) else answered(answer, notice)
    hidden = f"{marker} {notice.kind.value} -->"
    if notice.kind is NoticeKind.LANDED:
        parts = [f"{hidden}\n{opening(notice)}", shown, details_block(events, before=told)]
    else:
        parts = [f"{hidden}\n{opening(notice)}", *told, shown, details_block(events)]
    return "\n\n".join(part for part in parts if part is not None) + "\n"


def content(body: str) -> str:
    """What people read of a comment of IMQ's."""
    return FIRST_LINE.sub("", body, count=1)


def must_act(notice: Notice) -> bool:
    """Whether the pull request left the queue, or never came in, and somebody has to act for it ever to land."""
    if notice.reason is None or notice.kind in WAITING:
        return False
    return REASONS[notice.reason].move is not ReasonActor.NOBODY
