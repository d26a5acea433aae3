"""Webhook events as the engine uses them: hints that something may have changed. GitHub is the truth.

The receiver distils each delivery to one of these before it is stored; fields that an event does not have are None.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from queue_engine.domain.known_facts import Fact


class WebhookKind(StrEnum):
    """What a delivery may mean for a queue."""

    LABELED = "labeled"
    """pull_request.labeled: `label` (any label; the engine knows the trigger), `head_sha`, `sender`."""
    CONSENT = "consent"
    """Anything that may withdraw consent: unlabeled, closed, reopened, converted_to_draft, ready_for_review,
    edited (base, or `title`), synchronize by anyone: `number`, `action`; for synchronize `before` and `head_sha`."""
    CHECK = "check"
    """check_run completed, or status that is no longer pending: `head_sha`, `check_name`, `passed`."""
    CHECKS = "checks"
    """check_suite completed, or workflow_run in progress or parked: `head_sha`, `unapproved`."""
    BASE_MOVED = "base_moved"
    """push to a branch: `branch`, `head_sha` (the new tip)."""
    COMMENT = "comment"
    """issue_comment.created on a pull request, with a command in it: `number`, `comment_id`, `commands`, `sender`."""
    REVIEW = "review"
    """pull_request_review submitted or dismissed: `number`, `action`."""
    RULES = "rules"
    """branch_protection_rule or repository_ruleset."""
    INSTALLED = "installed"
    """Repositories came, left, were archived, or have another name: `action`; for those of `repository` also which."""


class WebhookEvent(BaseModel):
    """One distilled delivery."""

    model_config = ConfigDict(frozen=True)

    kind: WebhookKind
    delivery: str
    """GitHub's delivery id, followed through the logs."""
    action: str | None = None
    installation_id: int
    repository_id: int | None = None
    owner: str | None = None
    name: str | None = None
    sender: str | None = None
    sender_is_bot: bool = False
    number: int | None = None
    updated_at: datetime | None = None
    """For LABELED and COMMENT: the instant of the pull request's last change, which was the label, or the comment."""
    arrived_at: datetime | None = None
    """When the delivery was stored, if its job has failed since: what it asks for keeps its place in the order."""
    order: int = Field(default=0, exclude=True)
    """Its place in the order in which deliveries were stored."""
    tries: int = Field(default=0, exclude=True)
    """How often IMQ has put it off before, for a read that was outdated or early, or an earlier label."""
    outdated: int = Field(default=0, exclude=True)
    """How many of these were for a read that was outdated."""
    label: str | None = None
    title: str | None = None
    """For CONSENT by `edited`: the new title, if it was only the title."""
    branch: str | None = None
    """The branch pushed to; for hints about a pull request its base branch."""
    before: str | None = None
    head_sha: str | None = None
    config: bool = False
    """For BASE_MOVED: the push may have changed the repository's configuration."""
    config_named: bool = False
    """For BASE_MOVED: it did, in a commit that the push lists, on whatever branch."""
    default_branch: bool = False
    """For BASE_MOVED: it is the repository's default branch."""
    comment_id: int | None = None
    commands: tuple[str, ...] = ()
    """For COMMENT: its lines that are commands, without the slash."""
    association: str | None = None
    """For COMMENT: what its author is to the repository, such as MEMBER. GitHub hides private members: NONE."""
    author: str | None = None
    """For COMMENT: who opened the pull request."""
    check_name: str | None = None
    passed: bool | None = None
    """For CHECK: whether its conclusion passes (success, skipped, neutral)."""
    unapproved: bool = False
    """For CHECKS: a workflow run waits until somebody approves it."""
    facts: tuple[Fact, ...] = Field(default=(), exclude=True)
    """What the delivery tells for certain: stored with it, by themselves, and not in its job."""
