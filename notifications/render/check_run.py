"""The check run "IMQ", with the fields of GitHub's checks API. Pure."""

from datetime import UTC, datetime
from typing import Any

from notifications.render.body import is_mismatch, kind_text, opening, paragraphs, place
from notifications.render.escape import one_line
from notifications.render.history import Events, history_lines
from notifications.texts.story import SUMMARY
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.own_check import OWN_CHECK
from queue_engine.domain.reasons import Reason

TITLE_LIMIT = 200

_QUEUED = frozenset({NoticeKind.QUEUED, NoticeKind.HELD, NoticeKind.BLOCKED, NoticeKind.PAUSED})
_RUNNING = frozenset({NoticeKind.UPDATING, NoticeKind.CHECKING, NoticeKind.READY})

# GitHub counts a completed `failure`, `cancelled`, `timed_out` or `action_required` as red for the whole commit, and
# some branch rules and tools then refuse to merge it even by hand. So red is kept for what the change itself must
# mend; a label taken off, a full queue or a GitHub in trouble ends neutral.
_RED = frozenset({Reason.CONFLICT, Reason.CHECKS_FAILED})


def external_id(repository: Repository, notice: Notice) -> str:
    """By which IMQ's run on this head is found again when the answer to its creation was lost."""
    return f"imq:{repository.id}:{notice.number}:{notice.head_sha[:12]}"


def completes(notice: Notice) -> bool:
    """Whether the check run of this notice is completed, and with it this stay in the queue."""
    return notice.kind not in _QUEUED | _RUNNING


def conclusion(notice: Notice) -> str:
    """GitHub's word for how it ended; only for a notice that `completes`."""
    if notice.kind is NoticeKind.LANDED:
        return "failure" if is_mismatch(notice) else "success"
    if notice.kind is NoticeKind.FAILED and notice.reason in _RED:
        return "failure"
    return "neutral"


def render_check_run(notice: Notice, *, external_id: str, events: Events = ()) -> dict[str, Any]:
    """The body of `POST .../check-runs`. Nobody is mentioned in it: the comment does that."""
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
    if notice.kind in _RUNNING:
        return fields | {"status": "in_progress", "started_at": _iso(notice.started_at or notice.at)}
    began = notice.started_at or notice.enqueued_at or notice.at
    return fields | {
        "status": "completed",
        "conclusion": conclusion(notice),
        "started_at": _iso(began),
        "completed_at": _iso(notice.at),
    }


def _title(notice: Notice) -> str:
    """A plain line, so nothing foreign stands in it; the reason code tells lists of checks apart."""
    title = kind_text(notice).title
    title += place(notice)
    if notice.progress is not None:
        done, total = notice.progress
        title += f", {done} of {total} have reported"
    if notice.reason is not None:
        reasons = (notice.reason, *(blocker.reason for blocker in notice.other_blockers))
        title += f": {', '.join(reason.replace('_', ' ') for reason in reasons)}"
    return one_line(title, TITLE_LIMIT)


def _iso(at: datetime) -> str:
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"
