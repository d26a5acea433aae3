"""Render IMQ's comment: one per pull request, found again by its hidden marker. Pure.

GitHub notifies no one of an edit (isaacs/github #310, bradfitz/issue-tracker-behaviors #8). So an outcome that needs a
person's action replaces the comment by a new one; every other notice edits it.
"""

from notifications.render.body import opening, paragraphs
from notifications.render.history import Events, details_block, moved_since
from notifications.render.replies import render_replies
from notifications.render.trains import state_sentence
from queue_engine.domain.notice import FIRST_LINE, MARKER, WAITING, CommandReply, Notice, NoticeKind, kind_of
from queue_engine.domain.reasons import REASONS, ReasonActor
from queue_engine.queries.pull_request_status import ReplyFacts

__all__ = ["MARKER", "content", "kind_of", "must_act", "render_comment"]


def render_comment(
    notice: Notice, *, events: Events = (), answer: CommandReply | None = None, facts: ReplyFacts | None = None
) -> str:
    """Render the comment: the notice, the replies to the last commands, and the folded history.

    Replies older than the last change are left out. The comment stays well below GitHub's limit of 65,536 characters.
    For a landed pull request all but the headline, and why IMQ closed it, is folded.
    """
    body = paragraphs(notice, mentions=True, events=events)
    shown = None if answer is None or moved_since(events, answer.at) else render_replies(answer, notice, facts)
    hidden = f"{MARKER} {notice.kind.value} -->"
    if notice.kind is NoticeKind.LANDED:
        parts = [f"{hidden}\n{opening(notice)}", state_sentence(notice), shown, details_block(events, before=body)]
    else:
        parts = [f"{hidden}\n{opening(notice)}", *body, shown, details_block(events)]
    return "\n\n".join(part for part in parts if part is not None) + "\n"


def content(body: str) -> str:
    """Return the visible part of a comment."""
    return FIRST_LINE.sub("", body, count=1)


def must_act(notice: Notice) -> bool:
    """Whether the pull request is not queued, and lands only after a person acts."""
    if notice.reason is None or notice.kind in WAITING:
        return False
    return REASONS[notice.reason].next_actor is not ReasonActor.NONE
