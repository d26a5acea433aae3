"""Webhook events as the engine uses them: hints that something may have changed. GitHub is the truth.

The receiver normalizes each delivery to one of these classes before it is stored.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Discriminator, Field, Tag

from queue_engine.core.read_model import ReadModel
from queue_engine.domain.known_facts import Fact
from queue_engine.domain.model import Repository

WEBHOOK_JOB = "webhook"
"""Kind of the job that follows one stored delivery; its request is the `WebhookEvent`."""


class Webhook(ReadModel, frozen=True):
    """What every normalized delivery has. `kind` is its meaning for a queue."""

    kind: str
    delivery: str
    """GitHub's delivery id, which the logs name."""
    installation_id: int
    repository_id: int | None = None
    owner: str | None = None
    name: str | None = None
    sender: str | None = None
    """The account that caused the event; GitHub leaves it out of some pushes (libraries.io #3089)."""
    sender_is_bot: bool = False
    facts: tuple[Fact, ...] = Field(default=(), exclude=True)
    """The facts that the delivery states: stored with the delivery, in rows of their own, not in its job."""

    @property
    def repository(self) -> Repository | None:
        """The repository; None for an event of the whole installation."""
        if self.repository_id is None or self.owner is None or self.name is None:
            return None
        return Repository(self.repository_id, self.owner, self.name, self.installation_id)


class RepositoryWebhook(Webhook):
    repository_id: int
    owner: str
    name: str

    @property
    def repository(self) -> Repository:
        return Repository(self.repository_id, self.owner, self.name, self.installation_id)


TRUSTED = frozenset({"OWNER", "MEMBER", "COLLABORATOR"})
"""Associations whose permission is read together with the pull request. GitHub shows private members as NONE."""


@dataclass(frozen=True, slots=True)
class RequestRetry:
    """What the job of a request adds to its webhook."""

    order: int = 0
    """The number of the delivery in the order of arrival."""
    stored_at: datetime | None = None
    """When the delivery was stored: its request counts from then, even if a worker has time only later."""
    arrived_at: datetime | None = None
    """The same, if the job has failed since: its request keeps its position in the order."""
    awaited: int = 0
    """How often IMQ has postponed the job for an earlier request."""


class PullRequestWebhook(RepositoryWebhook):
    number: int
    attempt: RequestRetry = Field(default=RequestRetry(), exclude=True)


class CommitWebhook(RepositoryWebhook):
    head_sha: str


class LabelRequest(PullRequestWebhook):
    """pull_request.labeled, with any label; the engine knows the trigger."""

    kind: Literal["labeled"] = "labeled"
    branch: str
    label: str
    head_sha: str
    updated_at: datetime
    """When the label was set: then the pull request changed last."""


class StateChange(PullRequestWebhook):
    """Any other event of a pull request that may withdraw consent."""

    kind: Literal["consent"] = "consent"
    action: Literal[
        "closed",
        "reopened",
        "converted_to_draft",
        "ready_for_review",
        "auto_merge_enabled",
        "auto_merge_disabled",
        "review_requested",
        "review_request_removed",
        "edited",
    ]
    branch: str
    title: str | None = None
    """For `edited`: the new title, if only the title changed, and neither the base branch nor what lands before."""
    head_sha: str | None = None
    """For `auto_merge_enabled`: the head of that instant."""


class LabelChange(PullRequestWebhook):
    """pull_request.unlabeled."""

    kind: Literal["consent"] = "consent"
    action: Literal["unlabeled"] = "unlabeled"
    branch: str
    label: str | None = None
    """None if the label itself was deleted."""


class HeadChange(PullRequestWebhook):
    """pull_request.synchronize, by anyone."""

    kind: Literal["consent"] = "consent"
    action: Literal["synchronize"] = "synchronize"
    branch: str
    before: str
    head_sha: str


PullRequestChange = Annotated[StateChange | LabelChange | HeadChange, Field(discriminator="action")]
"""Whatever may withdraw consent."""


class ConversationReady(PullRequestWebhook):
    """pull_request.unlocked: the conversation takes comments again."""

    kind: Literal["unlocked"] = "unlocked"


class CommandWebhook(PullRequestWebhook):
    sender: str
    commands: tuple[str, ...]
    """Its lines that are commands, without the slash."""
    joins: bool = False
    """Whether one of them may queue a pull request."""
    withdraws: Literal["pull_request", "repository"] | None = None
    """What one of them may keep from landing. A comment's webhook does not name the base branch whose queue it pauses.
    """
    association: str | None = None
    """GitHub's `author_association`, such as MEMBER. GitHub hides private members: NONE."""
    author: str | None = None
    """The author of the pull request; None once that account is deleted."""
    updated_at: datetime | None = None
    """When the text was written: then the pull request changed last."""

    @property
    def by_author(self) -> bool:
        """Whether the author of the pull request wrote them."""
        return self.author is not None and self.sender.casefold() == self.author.casefold()

    @property
    def by_stranger(self) -> bool:
        """Whether nothing that GitHub said of the person gives a right to what one of them may withdraw."""
        may = self.by_author and self.withdraws == "pull_request"
        return not may and self.association not in TRUSTED


class CommentCommand(CommandWebhook):
    """issue_comment.created on a pull request, with a command in it."""

    kind: Literal["comment"] = "comment"
    comment_id: int


class ReviewWebhook(PullRequestWebhook):
    """pull_request_review submitted or dismissed."""

    kind: Literal["review"] = "review"
    action: Literal["submitted", "dismissed"]
    branch: str


class ReviewCommand(ReviewWebhook, CommandWebhook):
    """pull_request_review submitted by a person who wrote commands in its text."""

    sender: str
    review_id: int
    head_sha: str
    """The head that was reviewed."""


CommandEvent = CommentCommand | ReviewCommand


class ConversationWebhook(PullRequestWebhook):
    """pull_request_review_thread resolved or unresolved."""

    kind: Literal["conversation"] = "conversation"
    action: Literal["resolved", "unresolved"]
    branch: str


class CheckOutcome(CommitWebhook):
    """check_run completed, or status that is no longer pending."""

    kind: Literal["check"] = "check"
    check_name: str
    passed: bool
    """Whether its conclusion passes (success, skipped, neutral)."""
    skipped: bool = False
    check_url: str | None = None
    """The check's page, if its App names one."""
    check_started: datetime | None = None
    check_ended: datetime | None = None
    by_actions: bool = False
    """Whether GitHub Actions reports it, so that it is a job."""
    own_branch: str | None = None
    """The branch of IMQ's own that has the commit, if GitHub names one."""
    without_jobs: ClassVar[bool] = False


class SuiteReport(CommitWebhook):
    """check_suite completed, or workflow_run in progress or without jobs."""

    kind: Literal["checks"] = "checks"
    check_name: ClassVar[None] = None
    passed: ClassVar[None] = None
    skipped: bool = False
    """Whether all of the suite were skipped (actions/github-script #147, apache/spark #36371)."""
    without_jobs: bool = False
    """A workflow run waits for approval, or ended before it had a job."""


CheckWebhook = CheckOutcome | SuiteReport


class RerunRequest(CommitWebhook):
    """check_run or check_suite of IMQ's own App rerequested by a person."""

    kind: Literal["rerun"] = "rerun"
    sender: str
    numbers: tuple[int, ...]
    """The pull requests of the check, as far as the delivery names them."""


class BranchPush(RepositoryWebhook):
    """push to a branch."""

    kind: Literal["base_moved"] = "base_moved"
    branch: str
    before: str
    head_sha: str | None = None
    """The new tip; None for a deleted branch."""
    config: bool = False
    """The push may have changed the repository's configuration, or its workflows."""
    config_named: bool = False
    """A commit that the push lists changed the configuration, on any branch."""
    default_branch: bool = False
    all_named: bool = True
    """The commits that the push lists are all of its changes; a forced push lists not all."""


class LabelRename(RepositoryWebhook):
    """label.edited, by which a label of the repository got another name. Its pull requests keep it."""

    kind: Literal["label_renamed"] = "label_renamed"
    former: str
    label: str


class RuleChange(Webhook):
    """branch_protection_rule or repository_ruleset. An organisation's ruleset names no repository."""

    kind: Literal["rules"] = "rules"


class TeamChange(Webhook):
    """membership or team: who is in a team may have changed, in the whole installation."""

    kind: Literal["teams"] = "teams"


class RepositoryChange(Webhook):
    """Repositories were added, removed, archived, renamed or made private; of `repository` also which one."""

    kind: Literal["installed"] = "installed"
    action: str
    selected: tuple[Repository, ...] = ()
    """Those that were added to the installation or removed from it, if they are few."""


def _review_of(stored: Any) -> str:
    """Return which class a stored review has, or a webhook."""
    if isinstance(stored, Webhook):
        return type(stored).__name__
    return "ReviewCommand" if stored.get("commands") else "ReviewWebhook"


_Review = Annotated[
    Annotated[ReviewWebhook, Tag("ReviewWebhook")] | Annotated[ReviewCommand, Tag("ReviewCommand")],
    Discriminator(_review_of),
]

WebhookEvent = Annotated[
    LabelRequest
    | PullRequestChange
    | ConversationReady
    | CommentCommand
    | _Review
    | ConversationWebhook
    | CheckOutcome
    | SuiteReport
    | RerunRequest
    | BranchPush
    | LabelRename
    | RuleChange
    | TeamChange
    | RepositoryChange,
    Field(discriminator="kind"),
]
"""One normalized delivery."""
