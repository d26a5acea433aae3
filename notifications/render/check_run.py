"""Render the check run "IMQ", with the fields of GitHub's checks API. Pure."""

from datetime import UTC, datetime
from typing import Any

from notifications.render.body import is_mismatch, kind_text, opening, paragraphs, position_text
from notifications.render.escape import one_line
from notifications.render.history import Events, history_lines
from notifications.texts.history import SUMMARY
from queue_engine.domain.facts import OWN_CHECK
from queue_engine.domain.model import Repository
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import Reason

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
