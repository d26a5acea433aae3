"""Render IMQ's comment and its check run. Pure.

GitHub notifies no one of an edit (isaacs/github #310, bradfitz/issue-tracker-behaviors #8). So an outcome that needs a
person's action replaces the comment by a new one; every other notice edits it.
"""

from datetime import UTC, datetime
from typing import Any

from notifications.render.body import is_mismatch, kind_text, opening, paragraphs, position_text
from notifications.render.culprit_text import culprit_paragraphs
from notifications.render.escape import one_line
from notifications.render.replies import render_replies
from notifications.render.timeline_text import Events, details_block, history_lines, moved_since
from notifications.render.train_text import state_sentence
from notifications.texts.history import SUMMARY
from queue_engine.domain.culprit import CulpritOutcome
from queue_engine.domain.facts import OWN_CHECK
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import FIRST_LINE, MARKER, WAITING, CommandReply, Notice, NoticeKind, ReplyKind
from queue_engine.domain.reasons import REASONS, Reason, ReasonActor
from queue_engine.queries.pull_request_status import ReplyFacts


def render_comment(
    notice: Notice, *, events: Events = (), answer: CommandReply | None = None, facts: ReplyFacts | None = None
) -> str:
    """Render the comment: the notice, the replies to the last commands, and the folded history.

    Replies older than the last change are left out, but not those that announce the result of a test. The comment stays
    well below GitHub's limit of 65,536 characters.
    For a landed pull request all but the headline, and why IMQ closed it, is folded; not if it landed as not tested.
    """
    body = paragraphs(notice, mentions=True, events=events)
    is_open = answer is not None and any(reply.code is ReplyKind.TRYING for reply in answer.replies)
    outdated = answer is None or (moved_since(events, answer.at) and not is_open)
    shown = None if answer is None or outdated else render_replies(answer, notice, facts)
    hidden = f"{MARKER} {notice.kind.value} -->"
    if notice.kind is NoticeKind.LANDED and not is_mismatch(notice):
        blamed = culprit_paragraphs(notice)
        parts = [f"{hidden}\n{opening(notice)}", *blamed, state_sentence(notice), shown]
        parts.append(details_block(events, before=body))
    else:
        parts = [f"{hidden}\n{opening(notice)}", *body, shown, details_block(events)]
    return "\n\n".join(part for part in parts if part is not None) + "\n"


def content(body: str) -> str:
    """Return the visible part of a comment."""
    return FIRST_LINE.sub("", body, count=1)


def must_act(notice: Notice) -> bool:
    """Whether the pull request is not queued, and lands only after a person acts."""
    if notice.culprit is not None:
        return notice.culprit.outcome is not CulpritOutcome.UNCERTAIN and notice.culprit.revert is None
    if notice.reason is None or notice.kind in WAITING:
        return False
    return REASONS[notice.reason].next_actor is not ReasonActor.NONE


TITLE_LIMIT = 200

_QUEUED = frozenset({NoticeKind.QUEUED, NoticeKind.HELD, NoticeKind.NOT_READY, NoticeKind.BLOCKED, NoticeKind.PAUSED})
_RUNNING = frozenset({NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})

# GitHub counts a completed `failure`, `cancelled`, `timed_out` or `action_required` as red for the whole commit, and
# some branch rules and tools then refuse to merge it even by hand. So only faults of the change itself are red; a
# removed label, a full queue or an outage of GitHub ends neutral.
_RED = frozenset({Reason.CONFLICT, Reason.CHECKS_FAILED})


def external_id(repository: Repository, notice: Notice) -> str:
    """Return the id by which IMQ finds its run on this head after a lost response."""
    return f"imq:{repository.id}:{notice.number}:{notice.head_sha[:12]}"


def completes(notice: Notice) -> bool:
    """Whether this notice completes the check run."""
    return notice.merges_now or notice.kind not in _QUEUED | _RUNNING


def conclusion(notice: Notice) -> str:
    """Return GitHub's conclusion of a notice that `completes`."""
    if notice.merges_now:
        return "success"
    if notice.kind is NoticeKind.LANDED:
        return "failure" if is_mismatch(notice) else "success"
    if notice.kind is NoticeKind.FAILED and notice.reason in _RED:
        return "failure"
    return unmerged_conclusion(notice)


def unmerged_conclusion(notice: Notice) -> str:
    """Return GitHub's conclusion of a run that ends without the merge of its head, and without a fault of the change.

    GitHub counts `neutral` and `skipped` as passed (docs, "About protected branches"; bulldozer 1.12.0): where rules
    require the run, only another conclusion keeps people from merging past the queue.
    """
    return "cancelled" if notice.own_check_required and notice.reason is not Reason.MERGED_ELSEWHERE else "neutral"


def render_check_run(notice: Notice, *, external_id: str, events: Events = ()) -> dict[str, Any]:
    """Return the body of `POST .../check-runs`. It mentions no one: the comment does that."""
    output = {
        "title": _title(notice),
        "summary": "\n\n".join([opening(notice), *paragraphs(notice, mentions=False, events=events)]),
    }
    if lines := history_lines(events):
        output["text"] = "\n".join([f"**{SUMMARY}**", "", *lines])
    fields: dict[str, Any] = {
        "name": OWN_CHECK,
        "head_sha": notice.head_sha,
        "external_id": external_id,
        "output": output,
    }
    if notice.kind in _QUEUED:
        return fields | {"status": "queued"}
    if notice.kind in _RUNNING and not notice.merges_now:
        return fields | {"status": "in_progress", "started_at": _iso(notice.started_at or notice.at)}
    began = notice.started_at or notice.enqueued_at or notice.at
    return fields | {
        "status": "completed",
        "conclusion": conclusion(notice),
        "started_at": _iso(began),
        "completed_at": _iso(notice.at),
    }


def _title(notice: Notice) -> str:
    """Render the title in plain text: only IMQ's own words, with the reason codes."""
    title = kind_text(notice).title
    title += position_text(notice)
    if notice.progress is not None:
        done, total = notice.progress
        title += f", {done} of {total} have reported"
    if notice.reason is not None:
        reasons = (notice.reason, *(blocker.reason for blocker in notice.other_blockers))
        title += f": {', '.join(reason.replace('_', ' ') for reason in reasons)}"
    return one_line(title, TITLE_LIMIT)


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
