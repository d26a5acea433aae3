"""Webhook events as the engine uses them: hints that something may have changed. GitHub is the truth.

The receiver normalizes each delivery to a `WebhookEvent` before it is stored; fields that an event lacks are None.
"""

from datetime import datetime
from enum import StrEnum

from pydantic import BaseModel, ConfigDict, Field

from queue_engine.domain.known_facts import Fact

WEBHOOK_JOB = "webhook"
"""Kind of the job that follows one stored delivery; its request is the `WebhookEvent`."""


class WebhookKind(StrEnum):
    """The meaning of a delivery for a queue."""

    LABELED = "labeled"
    """pull_request.labeled: `label` (any label; the engine knows the trigger), `head_sha`, `sender`."""
    CONSENT = "consent"
    """Anything that may withdraw consent: unlabeled, closed, reopened, converted_to_draft, ready_for_review,
    edited (base, or `title`), synchronize by anyone: `number`, `action`; for synchronize `before` and `head_sha`."""
    UNLOCKED = "unlocked"
    """pull_request.unlocked: `number`; its conversation takes comments again."""
    CHECK = "check"
    """check_run completed, or status that is no longer pending: `head_sha`, `check_name`, `passed`."""
    CHECKS = "checks"
    """check_suite completed, or workflow_run in progress or without jobs: `head_sha`, `without_jobs`."""
    RERUN = "rerun"
    """check_run or check_suite of IMQ's own App rerequested by a person: `head_sha`, `numbers`, `sender`."""
    BASE_MOVED = "base_moved"
    """push to a branch: `branch`, `head_sha` (the new tip)."""
    COMMENT = "comment"
    """issue_comment.created on a pull request, with a command in it: `number`, `comment_id`, `commands`, `sender`."""
    REVIEW = "review"
    """pull_request_review submitted or dismissed: `number`, `action`; if a person wrote commands in its text also
    `review_id`, `commands`, `sender` and `head_sha`, the head that was reviewed."""
    CONVERSATION = "conversation"
    """pull_request_review_thread resolved or unresolved: `number`, `action`, `sender`."""
    RULES = "rules"
    """branch_protection_rule or repository_ruleset."""
    TEAMS = "teams"
    """membership or team: who is in a team may have changed, in the whole installation."""
    INSTALLED = "installed"
    """Repositories were added, removed, archived, renamed or made private: `action`; of `repository` also which one."""


class WebhookEvent(BaseModel):
    """One normalized delivery."""

    model_config = ConfigDict(frozen=True)

    kind: WebhookKind
    delivery: str
    """GitHub's delivery id, which the logs name."""
    action: str | None = None
    installation_id: int
    repository_id: int | None = None
    owner: str | None = None
    name: str | None = None
    sender: str | None = None
    sender_is_bot: bool = False
    number: int | None = None
    updated_at: datetime | None = None
    """For LABELED, COMMENT and REVIEW: when the label was set, or the text was written: then the pull request changed
    last."""
    arrived_at: datetime | None = None
    """When the delivery was stored, if its job has failed since: its request keeps its position in the order."""
    stored_at: datetime | None = Field(default=None, exclude=True)
    """When the delivery was stored: its request counts from then, even if a worker has time only later."""
    order: int = Field(default=0, exclude=True)
    """The number of the delivery in the order of arrival."""
    tries: int = Field(default=0, exclude=True)
    """How often IMQ has postponed the job before, for a stale or early read, or an earlier label."""
    outdated: int = Field(default=0, exclude=True)
    """How many of these were for a stale read."""
    awaited: int = Field(default=0, exclude=True)
    """How many of these were for an earlier label."""
    label: str | None = None
    title: str | None = None
    """For CONSENT by `edited`: the new title, if only the title changed."""
    branch: str | None = None
    """The pushed branch; for events of a pull request its base branch."""
    before: str | None = None
    head_sha: str | None = None
    config: bool = False
    """For BASE_MOVED: the push may have changed the repository's configuration, or its workflows."""
    config_named: bool = False
    """For BASE_MOVED: a commit that the push lists changed the configuration, on any branch."""
    default_branch: bool = False
    """For BASE_MOVED: the branch is the repository's default branch."""
    comment_id: int | None = None
    review_id: int | None = None
    commands: tuple[str, ...] = ()
    """For COMMENT and REVIEW: its lines that are commands, without the slash."""
    association: str | None = None
    """For COMMENT and REVIEW: GitHub's `author_association`, such as MEMBER. GitHub hides private members: NONE."""
    author: str | None = None
    """For COMMENT and REVIEW: the author of the pull request."""
    check_name: str | None = None
    passed: bool | None = None
    """For CHECK: whether its conclusion passes (success, skipped, neutral)."""
    skipped: bool = False
    """For CHECK: whether the check run was skipped; for CHECKS: whether all of the suite were (actions/github-script
    #147, apache/spark #36371)."""
    check_url: str | None = None
    """For CHECK, as the two instants: the check's page, if its App names one."""
    check_started: datetime | None = None
    check_ended: datetime | None = None
    numbers: tuple[int, ...] = ()
    """For RERUN: the pull requests of the check, as far as the delivery names them."""
    without_jobs: bool = False
    """For CHECKS: a workflow run waits for approval, or ended before it had a job."""
    facts: tuple[Fact, ...] = Field(default=(), exclude=True)
    """The facts that the delivery states: stored with the delivery, in rows of their own, not in its job."""
