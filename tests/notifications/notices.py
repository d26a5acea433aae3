"""Notices to try the texts on: one of each kind and one of each reason, as the engine would send them."""

from datetime import UTC, datetime, timedelta
from typing import Any

from queue_engine.facts import CheckReport, CheckState
from queue_engine.model import Repository
from queue_engine.notice import Notice, NoticeKind
from queue_engine.reasons import REASONS, Outcome, Reason

NOW = datetime(2026, 3, 14, 15, 9, 26, tzinfo=UTC)
HEAD = "1" * 40
LANDED = "abcdef0123456789abcdef0123456789abcdef01"
REPOSITORY = Repository(id=7, owner="octo", name="garden", installation_id=1)

KIND_OF_OUTCOME = {
    Outcome.FAILED: NoticeKind.FAILED,
    Outcome.CANCELLED: NoticeKind.CANCELLED,
    Outcome.REFUSED: NoticeKind.REFUSED,
    Outcome.HELD: NoticeKind.HELD,
    Outcome.PAUSED: NoticeKind.PAUSED,
}


def check(
    name: str = "build", conclusion: str = "failure", url: str | None = "https://ci.example/runs/1"
) -> CheckReport:
    """A check that finished two minutes ago, or is still running if its conclusion says so."""
    running = conclusion in {"queued", "in_progress"}
    return CheckReport(
        name=name,
        app_id=15368,
        state=CheckState.PENDING if running else CheckState.FAILED,
        conclusion=conclusion,
        url=url,
        started_at=NOW - timedelta(minutes=9),
        completed_at=None if running else NOW - timedelta(minutes=2),
    )


def notice(kind: NoticeKind = NoticeKind.QUEUED, **changes: Any) -> Notice:
    """A notice of octo/garden#42, queued an hour ago by bob; alice is the author, carol an assignee."""
    fields: dict[str, Any] = {
        "number": 42,
        "base_branch": "main",
        "head_sha": HEAD,
        "at": NOW,
        "people": ("alice", "carol"),
        "position": 2,
        "depth": 5,
        "enqueued_at": NOW - timedelta(minutes=65),
        "started_at": None if kind is NoticeKind.QUEUED else NOW - timedelta(minutes=10),
        "queued_by": "bob",
    }
    return Notice(kind=kind, **(fields | changes))


def of_kind(kind: NoticeKind) -> Notice:
    """This kind's typical notice, without a reason."""
    changes: dict[NoticeKind, dict[str, Any]] = {
        NoticeKind.CHECKING: {
            "checks": (check("build", "in_progress"), check("docs / links", "queued", url=None)),
        },
        NoticeKind.LANDED: {"landed_sha": LANDED},
    }
    return notice(kind, **changes.get(kind, {}))


def of_reason(reason: Reason) -> Notice:
    """The notice that this reason leads to."""
    changes: dict[Reason, dict[str, Any]] = {
        Reason.CHECKS_FAILED: {"checks": (check("build"), check("test (3.11)", "timed_out"))},
        Reason.CHECKS_TIMED_OUT: {"checks": (CheckReport("docs", None, CheckState.PENDING, "", None, None, None),)},
        Reason.REFUSED_BY_RULES: {"detail": "At least 1 approving review is required by reviewers with write access."},
        Reason.PERMISSION_MISSING: {"detail": "refusing to allow a GitHub App to create or update workflow `ci.yml`"},
        Reason.TREE_MISMATCH: {"detail": "landed tree 2222222, tested tree 3333333"},
    }
    return notice(KIND_OF_OUTCOME[REASONS[reason].outcome], reason=reason, **changes.get(reason, {}))
