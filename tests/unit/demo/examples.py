"""Pull requests as the demo sees them, with IMQ's comments as IMQ writes them."""

from datetime import UTC, datetime
from typing import Any

from imq_demo.observe import ObservedPullRequest
from notifications.render.comment import render_comment
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.domain.reasons import Reason

NOON = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)


def comment(kind: NoticeKind, reason: Reason | None = None, **more: Any) -> str:
    """IMQ's comment."""
    return render_comment(
        Notice(kind=kind, number=1, base_branch="main", head_sha="a" * 40, at=NOON, reason=reason, **more)
    )


LANDED = comment(NoticeKind.LANDED, landed_sha="b" * 40)
CONFLICT = comment(NoticeKind.FAILED, Reason.CONFLICT)
RED = comment(NoticeKind.FAILED, Reason.CHECKS_FAILED)


def landed(number: int, **more: Any) -> ObservedPullRequest:
    """A pull request that landed."""
    facts: dict[str, Any] = {"state": "closed", "merged": True, "labeled": False, "comments": (LANDED,)} | more
    return ObservedPullRequest(number, f"Change {number}", **facts)


def left(number: int, comments: str = CONFLICT, **more: Any) -> ObservedPullRequest:
    """A pull request that left the queue with this comment."""
    facts: dict[str, Any] = {"state": "open", "merged": False, "labeled": False, "comments": (comments,)} | more
    return ObservedPullRequest(number, f"Change {number}", **facts)
