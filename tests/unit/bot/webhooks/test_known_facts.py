"""What deliveries tell for certain: the facts with which later reads are compared."""

from datetime import UTC, datetime
from typing import Any

from bot.webhooks.normalize import normalize
from queue_engine.domain.known_facts import (
    CheckResult,
    CommitStatus,
    ConversationChange,
    KnownName,
    MergeResult,
    PullRequestState,
    Push,
    ReviewChange,
    Statement,
)

AT = "2026-01-02T03:04:05Z"
INSTANT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
PULL: dict[str, Any] = {
    "number": 3,
    "title": "Change",
    "state": "open",
    "merged": False,
    "draft": False,
    "head": {"sha": "h1"},
    "base": {"ref": "main"},
    "labels": [{"name": "merge-queue"}],
    "updated_at": AT,
}
STATE = PullRequestState(
    updated_at=INSTANT,
    head_sha="h1",
    base="main",
    open=True,
    merged=False,
    draft=False,
    labels=("merge-queue",),
    title="Change",
    by="grace",
    order=(),
)
RUN: dict[str, Any] = {
    "id": 5,
    "name": "ci",
    "head_sha": "h1",
    "conclusion": "failure",
    "app": {"id": 10},
    "started_at": AT,
    "completed_at": AT,
}
PUSHED = Push(before="b0", after="b1", at=INSTANT)
DELIVERIES: list[tuple[str, dict[str, Any], dict[str, Statement]]] = [
    (
        "pull_request",
        {"action": "labeled", "label": {"name": "merge-queue"}, "pull_request": PULL},
        {"pull 3": STATE.model_copy(update={"action": "labeled", "label": "merge-queue", "label_set": True})},
    ),
    (
        "pull_request",
        {"action": "unlabeled", "label": {"name": "docs"}, "pull_request": PULL},
        {"pull 3": STATE.model_copy(update={"action": "unlabeled", "label": "docs"})},
    ),
    (
        "pull_request",
        {"action": "synchronize", "before": "h0", "after": "h1", "pull_request": PULL},
        {"pull 3": STATE.model_copy(update={"action": "synchronize", "before": "h0"}), "commit h1": KnownName()},
    ),
    (
        "pull_request",
        {"action": "closed", "pull_request": PULL | {"state": "closed", "merged": True, "draft": True}},
        {"pull 3": STATE.model_copy(update={"action": "closed", "open": False, "merged": True, "draft": True})},
    ),
    (
        "push",
        {"ref": "refs/heads/main", "before": "b0", "after": "b1"},
        {"branch main": PUSHED, "default branch": PUSHED, "commit b1": KnownName()},
    ),
    (
        "push",
        {"ref": "refs/heads/topic", "before": "b0", "after": "b1", "deleted": True},
        {"branch topic": PUSHED},
    ),
    (
        "check_run",
        {"action": "completed", "check_run": RUN},
        {
            "commit h1": CheckResult(
                id=5, name="ci", app_id=10, conclusion="failure", started_at=INSTANT, completed_at=INSTANT
            )
        },
    ),
    (
        "status",
        {"sha": "h1", "context": "ci", "state": "success", "updated_at": AT},
        {"commit h1": CommitStatus(name="ci", state="success", at=INSTANT)},
    ),
    (
        "issue_comment",
        {
            "action": "created",
            "issue": {"number": 3, "pull_request": {}},
            "comment": {"id": 7, "body": "/queue"},
        },
        {"pull 3": KnownName(), "comment 7": KnownName()},
    ),
    (
        "pull_request_review",
        {"action": "submitted", "pull_request": PULL, "review": {"state": "APPROVED", "user": {"login": "ada"}}},
        {"pull 3": ReviewChange(author="ada", state="approved", by="grace")},
    ),
    ("pull_request_review", {"action": "dismissed", "pull_request": PULL}, {"pull 3": KnownName()}),
    (
        "pull_request_review_thread",
        {"action": "unresolved", "pull_request": PULL, "thread": {"node_id": "T1", "comments": []}},
        {"pull 3": ConversationChange(id="T1", resolved=False)},
    ),
    ("repository_ruleset", {"action": "edited"}, {"rules": KnownName()}),
]


def test_delivery_has_its_facts_and_its_job_keeps_none_of_them() -> None:
    """They are stored by themselves, and for a quarter of an hour only."""
    for event, parts, expected in DELIVERIES:
        payload = {
            "installation": {"id": 9},
            "repository": {"id": 5, "full_name": "ada/engine", "default_branch": "main", "pushed_at": 1767323045},
            "sender": {"login": "grace"},
            **parts,
        }
        webhook_event = normalize(event, "d-1", payload, own_app_id=77)
        assert webhook_event is not None, (event, parts, expected)
        assert {fact.subject: fact.statement for fact in webhook_event.facts} == expected, (event, parts, expected)
        assert "facts" not in webhook_event.model_dump(), (event, parts, expected)
        assert MergeResult(sha="x") not in expected.values(), (event, parts, expected)
