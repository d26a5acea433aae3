"""Facts of GitHub as plain data, from which IMQ decides."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from queue_engine.domain.known_facts import Consent, PullRequestState


class MergeMethod(StrEnum):
    """How GitHub merges a pull request."""

    MERGE = "merge"
    SQUASH = "squash"
    REBASE = "rebase"


class Permission(StrEnum):
    """A person's right on a repository, weakest first."""

    NONE = "none"
    READ = "read"
    TRIAGE = "triage"
    WRITE = "write"
    MAINTAIN = "maintain"
    ADMIN = "admin"

    @property
    def may_merge(self) -> bool:
        """GitHub lets people with write permission or more merge; triagers may label only."""
        return self in {Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN}


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, or a bot, on GitHub: an id that stays, and the login of the moment."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as GitHub showed it at one instant.

    `head_repository` is None when the fork was deleted. `mergeable` None means that GitHub has not computed it yet.
    `merge_sha` is the commit that landed it, when `merged`; None where the API version no longer says.
    """

    number: int
    title: str
    author: str
    assignees: tuple[str, ...]
    open: bool
    merged: bool
    draft: bool
    head_sha: str
    head_repository: str | None
    base_branch: str
    mergeable: bool | None
    labels: frozenset[str]
    merge_sha: str | None
    maintainer_can_modify: bool
    methods: tuple[MergeMethod, ...]
    """Merge methods that the repository allows, in the order merge, squash, rebase."""
    body: str = ""
    """What its author wrote below the title; not trusted."""
    head_branch: str = ""
    merge_state: str = "unknown"
    """GitHub's `mergeable_state`: clean, unstable, blocked, behind, dirty, draft, has_hooks or unknown."""
    default_branch: str = ""
    """The repository's."""
    base_repository: str = ""
    """The repository that it is in, `owner/name`, as GitHub names it now."""
    updated_at: datetime | None = None
    """When anything about it changed last: a push, a label, a comment."""
    comments: int | None = 0
    """How many comments stand on it, by anybody, IMQ included; None where GitHub does not tell."""
    stacked: bool = False
    """Whether GitHub shows it as part of a stack, which only its asynchronous merge lands."""
    told: tuple[PullRequestState | Consent, ...] = field(default=(), compare=False, repr=False)
    """What webhooks told of it in the last quarter of an hour, and when somebody queued it, in the order of arrival."""


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """How a repository is called now, and whether it is archived, which makes it read-only."""

    owner: str
    name: str
    archived: bool


@dataclass(frozen=True, slots=True)
class Delivery:
    """One attempt to deliver a webhook, at the instant at which GitHub made it.

    `guid` is the same for every attempt, `id` is not. `action` is None for events that have none.
    """

    id: int
    guid: str
    at: datetime
    redelivery: bool
    succeeded: bool
    event: str
    action: str | None


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its tree and its parents in order."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    made_by_imq: bool = False
    """Whether GitHub's own signature says that GitHub made it for IMQ. False where the answer does not tell."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A head against the tip of a base branch. `behind` counts the base's commits that the head lacks."""

    base_tip: str
    merge_base: str
    behind: int
    head: Commit


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """Who set a label, or took it off, and when; `by` is None for a deleted account."""

    by: str | None
    at: datetime
    followed_by: frozenset[str] = frozenset()
    """GitHub's names for the kinds of events that its history of the pull request lists after this one."""


@dataclass(frozen=True, slots=True)
class HeadPush:
    """One move of a pull request's head branch, by GitHub's clock. `before` and `after` are commits; `by` is None for
    a deleted account."""

    before: str
    after: str
    at: datetime
    by: str | None


class CheckState(StrEnum):
    """What a check's newest run means for landing. `success`, `skipped` and `neutral` pass."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The newest report of one check on one commit: a check run, or a commit status."""

    name: str
    app_id: int | None
    """The App that reported; None where it was none, or GitHub does not tell."""
    state: CheckState
    conclusion: str
    """GitHub's own word: success, failure, timed_out, queued, error..."""
    url: str | None
    started_at: datetime | None
    completed_at: datetime | None
    run_id: int | None = None
    """The check run's number; None for a status."""
    actions_run: int | None = None
    """The run of GitHub Actions that it is a job of, once the list of runs has proved it."""
    suite: int | None = None
    """The check suite that it belongs to; None for a status."""
    by_actions: bool = False
    """Whether GitHub Actions itself reported it."""

    @property
    def started(self) -> bool:
        """Whether it has begun: a queued run waits for a machine. A status is told by something that runs."""
        return self.state is not CheckState.PENDING or self.run_id is None or self.conclusion == "in_progress"


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A check that protection demands; from any source when `app_id` is None."""

    name: str
    app_id: int | None


@dataclass(frozen=True, slots=True)
class BranchRules:
    """What classic protection and rulesets together demand of a base branch."""

    required_checks: frozenset[RequiredCheck]
    native_queue: bool
    """GitHub's own merge queue is required, so IMQ cannot merge."""
    linear_history: bool
    """Merge commits are refused."""
    approvals: int = 0
    """Approving reviews demanded. This and what follows: as far as GitHub shows it to an App of these permissions."""
    code_owners: bool = False
    """A code owner's approval is demanded."""
    conversations: bool = False
    """Every conversation is to be resolved."""
    signatures: bool = False
    locked: bool = False
    """Updates of the branch need a bypass."""
    push_restricted: bool = False
    """Only some may push to the branch, and IMQ is not among them."""
    methods: frozenset[MergeMethod] | None = None
    """The only merge methods that its rulesets allow; None: they say nothing of it."""
    deployments: tuple[str, ...] = ()
    """Environments to which the change has to be deployed first."""
    workflows: bool = False
    """Workflows are required to pass, which GitHub lists neither as checks nor by name."""
    approvals_bypassed: bool = False
    """IMQ may bypass a ruleset that demands approvals: GitHub does not check them when IMQ merges."""
    bypassed: tuple[str, ...] = ()
    """What rulesets demand that IMQ may bypass, so that GitHub does not check it, and IMQ cannot check either."""


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a branch stands, and whether rules protect it."""

    sha: str
    protected: bool


class ReviewState(StrEnum):
    """What a review says of the pull request."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    PENDING = "pending"


class ReviewOutcome(StrEnum):
    """What GitHub makes of all reviews, where rules demand some."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    REVIEW_REQUIRED = "review_required"


@dataclass(frozen=True, slots=True)
class Review:
    """One review; of each person the newest that is more than a comment counts. `author` None: a deleted account."""

    author: str | None
    state: ReviewState
    by_writer: bool
    """Whether GitHub says that its author may write, so that it counts."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pull request with what stands around it, as GitHub told it in one answer. None: GitHub did not tell."""

    pull: PullRequest
    permission: Permission | None = None
    """Of the person who was asked about."""
    comparison: Comparison | None = None
    """The head against the base; only known where the head contains the base's tip."""
    base_tip: str | None = None
    behind: int | None = None
    """How many commits of the base the head lacks."""
    decision: ReviewOutcome | None = None
    """Also None where no rule that GitHub counts here demands a review."""
    reviews: tuple[Review, ...] | None = None
    """The newest verdict of each person who may write."""
    resolved: bool | None = None
    """Whether every conversation is resolved."""
    head_guarded: bool = False
    """Whether IMQ may push to the head branch where rules keep others from it."""


@dataclass(frozen=True, slots=True)
class OwnComment:
    """A comment that IMQ wrote, as a list shows it. `number` is its pull request's."""

    number: int
    body: str
    updated_at: datetime
