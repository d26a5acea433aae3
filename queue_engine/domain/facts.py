"""Facts of GitHub as plain data, from which IMQ decides."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from queue_engine.domain.known_facts import Consent, PullRequestState


@dataclass(frozen=True, slots=True)
class StackMember:
    """An open pull request whose head branch is the base branch of another one."""

    number: int
    base_branch: str


@dataclass(frozen=True, slots=True)
class StackPosition:
    """The place of a pull request above another one, and the branch on which their stack lands."""

    below: int | None
    """The pull request below; None if GitHub does not name it."""
    own_base: str
    """Its base branch by GitHub: the head branch of the one below."""
    base_branch: str
    """The branch on which the stack lands, for whose queue it waits."""
    landed: bool = False
    """Whether the one below has landed, so that only GitHub's change of the base branch is missing."""


class LandingState(StrEnum):
    """How far a pull request is that has to land before another one."""

    LANDED = "landed"
    OPEN = "open"
    ENDED = "ended"
    """It was closed without landing."""
    CYCLE = "cycle"
    """It waits for the other one, too."""
    SET_OPEN = "set_open"
    """The set to which both belong waits, for this one or others."""
    SET_ENDED = "set_ended"
    """A member of the set was closed without landing."""
    SET_READY = "set_ready"
    """All of the set are ready, and those that land before this one have landed."""
    HIDDEN = "hidden"
    """IMQ, the author, or the person who queued the other one cannot see it; or the name is none of a pull request."""


@dataclass(frozen=True, slots=True)
class RequiredLanding:
    """A pull request that has to land before another one."""

    state: LandingState
    detail: str
    """Its name, `#12` or `owner/repository#12`; of a cycle all names, in order; of a set each member with its state.

    Of a set that is ready the full names, in order.
    """


@dataclass(frozen=True, slots=True)
class MergeCommit:
    """Title and body of a commit; None leaves them to GitHub."""

    title: str | None = None
    body: str | None = None


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
        """Whether GitHub lets this person merge: write permission or more. With triage one may only label."""
        return self in {Permission.WRITE, Permission.MAINTAIN, Permission.ADMIN}


@dataclass(frozen=True, slots=True)
class Actor:
    """A person, or a bot, on GitHub: the permanent id, and the present login."""

    id: int
    login: str


@dataclass(frozen=True, slots=True)
class PullRequest:
    """A pull request as GitHub showed it at one instant.

    `head_repository` is None when the fork was deleted. `mergeable` is None while GitHub computes it. `merge_sha` is
    the commit that landed, when `merged`; None where the API version lacks it.
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
    """The description; not trusted."""
    order: tuple[str, ...] = ()
    """Its lines that name other pull requests."""
    head_branch: str = ""
    merge_state: str = "unknown"
    """GitHub's `mergeable_state`: clean, unstable, blocked, behind, dirty, draft, has_hooks or unknown."""
    default_branch: str = ""
    by_rest: bool = field(default=False, compare=False)
    """Whether it was read by REST, whose answer has no event of its base."""
    base_repository: str = ""
    """The present full name, `owner/name`, of the base branch's repository."""
    updated_at: datetime | None = None
    """When anything about the pull request changed last: a push, a label, a comment."""
    comments: int | None = 0
    """How many comments it has, IMQ's included; None where GitHub's answer has no count."""
    merged_at: datetime | None = None  # None also where the answer lacks it.
    merged_by: str | None = None  # Who merged it; None also where the answer lacks it.
    rebaseable: bool | None = None  # Whether GitHub can rebase its commits; None while it computes that.
    head_in_organisation: bool = False  # Whether an organisation owns the head's repository.
    stack_base: str | None = None  # The branch on which its stack of GitHub's lands; None outside of such a stack.
    reported: tuple[PullRequestState | Consent, ...] = field(default=(), compare=False, repr=False)
    """States from webhooks of the last quarter of an hour, and when somebody queued it, in the order of arrival."""
    auto_merge: bool = False  # Whether GitHub merges it by itself as soon as its requirements are met.
    node_id: str = ""  # In GraphQL.
    url: str = ""  # Its page on GitHub.


@dataclass(frozen=True, slots=True)
class RepositoryState:
    """The present name of a repository, whether it is archived, which makes it read-only, and whether it is public."""

    owner: str
    name: str
    archived: bool
    public: bool = False


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
    status_code: int = 0
    """What was answered; 0: nothing was, or GitHub does not say."""


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit: its tree and its parents in order."""

    sha: str
    tree: str
    parents: tuple[str, ...]
    made_by_imq: bool = False  # Whether GitHub's own signature proves that GitHub made it for IMQ; False where none.
    message: str = field(default="", compare=False, repr=False)  # Not trusted; empty where the answer lacks it.


@dataclass(frozen=True, slots=True)
class Comparison:
    """A head compared with the tip of a base branch. `behind` counts the base's commits that the head lacks."""

    base_tip: str
    merge_base: str
    behind: int
    head: Commit
    ahead: tuple[str, ...] = field(default=(), compare=False)
    """The commits of the head that the base lacks, of which GitHub lists the newest 250."""

    @property
    def is_signed_update(self) -> bool:
        """Whether GitHub's signature proves that GitHub merged a commit of the base into the first parent, for IMQ.

        No other account can have it. A person's "Update branch" proves less: GitHub signs it like a merge
        in which the person resolved conflicts on the website, whose content is the person's (docs, "Resolving a merge
        conflict on GitHub" and "About commit signature verification").
        """
        parents = self.head.parents
        return self.head.made_by_imq and len(parents) == 2 and parents[1] == self.merge_base

    @property
    def head_landed(self) -> bool:
        """Whether the base contains the head already."""
        return self.merge_base == self.head.sha


@dataclass(frozen=True, slots=True)
class LabelEvent:
    """Who set or removed a label, and when; `by` is None for a deleted account."""

    by: str | None
    at: datetime
    followed_by: frozenset[str] = frozenset()
    """The kinds of later events in GitHub's history of the pull request, by GitHub's names."""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """An event of GitHub's history of a pull request; `by` is None for a deleted account."""

    kind: str
    """GitHub's word for it."""
    at: datetime
    by: str | None
    label: str | None = None
    """The label that was set or removed, by its name at that time."""


@dataclass(frozen=True, slots=True)
class HeadPush:
    """One push to a head branch, by GitHub's clock: two commits, and who pushed; `by` None: a deleted account."""

    before: str
    after: str
    at: datetime
    by: str | None


class CheckState(StrEnum):
    """The verdict of a check's newest run. `success`, `skipped` and `neutral` pass."""

    PENDING = "pending"
    PASSED = "passed"
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class CheckReport:
    """The newest report of one check on one commit: a check run, or a commit status."""

    name: str
    app_id: int | None
    """The App that reported; None where it was no App, or GitHub's answer lacks it."""
    state: CheckState
    conclusion: str
    """GitHub's value: success, failure, timed_out, queued, error..."""
    url: str | None
    started_at: datetime | None
    completed_at: datetime | None
    run_id: int | None = None
    """The check run's id; None for a status."""
    actions_run: int | None = None
    """The workflow run that has this check as a job, once the list of runs has proved it."""
    suite: int | None = None
    """The check suite; None for a status."""
    by_actions: bool = False
    """Whether GitHub Actions itself reported the check."""
    app: str | None = None
    """The name of the App that reported, for people to read; None where GitHub's answer lacks it."""
    price: float | None = None
    """The price of a minute of the job, where the configuration asks for prices and IMQ knows its runner."""

    @property
    def started(self) -> bool:
        """Whether the check has started: a queued run waits for a runner. A status comes from something that runs."""
        return self.state is not CheckState.PENDING or self.run_id is None or self.conclusion == "in_progress"

    @property
    def skipped(self) -> bool:
        """Whether it was skipped, or is neutral: it tested nothing, and GitHub counts it as passed."""
        return self.conclusion in ("skipped", "neutral")


@dataclass(frozen=True, slots=True)
class JobLabels:
    """The labels of the runners of jobs of GitHub Actions, by the job's name, and whether the repository is public."""

    labels: Mapping[str, tuple[str, ...]]
    public: bool


GITHUB_ACTIONS = 15368
"""The id of GitHub Actions as an App on github.com."""


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A required check; any source may report it when `app_id` is None."""

    name: str
    app_id: int | None


@dataclass(frozen=True, slots=True)
class BranchRules:
    """The requirements of a base branch, by classic protection and rulesets together."""

    required_checks: frozenset[RequiredCheck]
    native_queue: bool
    """Whether GitHub's own merge queue is required, so that IMQ cannot merge."""
    linear_history: bool
    """Whether GitHub refuses merge commits."""
    approvals: int = 0
    """Required approving reviews. This and the next: as far as GitHub shows them to an App of these permissions."""
    code_owners: bool = False
    conversations: bool = False
    """Whether every conversation has to be resolved."""
    signatures: bool = False
    locked: bool = False
    """Whether updates of the branch need a bypass."""
    push_restricted: bool = False
    """Whether only some may push to the branch, and IMQ is not among them."""
    methods: frozenset[MergeMethod] | None = None
    """The only merge methods that the rulesets allow; None: no ruleset limits them."""
    deployments: tuple[str, ...] = ()
    """Environments to which the change has to be deployed first."""
    workflows: bool = False
    """Whether workflows are required, which GitHub lists neither as checks nor by name."""
    approvals_bypassed: bool = False
    """Whether IMQ may bypass a ruleset that requires approvals: GitHub does not check them when IMQ merges."""
    bypassed: tuple[str, ...] = ()
    """Requirements that IMQ may bypass, so that GitHub does not check them, and IMQ cannot check them either."""
    protected: bool = False  # Whether classic protection applies, whatever it demands.
    up_to_date: bool = False  # Whether GitHub merges only heads that contain the base's tip, as far as it shows that.
    up_to_date_by: frozenset[int] = frozenset()  # The rulesets that demand this; 0 stands for classic protection.


@dataclass(frozen=True, slots=True)
class Branch:
    """The tip of a branch, and whether rules protect the branch."""

    sha: str
    protected: bool


class ReviewState(StrEnum):
    """The verdict of a review."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    COMMENTED = "commented"
    DISMISSED = "dismissed"
    PENDING = "pending"


class ReviewOutcome(StrEnum):
    """GitHub's decision by all reviews, where rules require some."""

    APPROVED = "approved"
    CHANGES_REQUESTED = "changes_requested"
    REVIEW_REQUIRED = "review_required"


@dataclass(frozen=True, slots=True)
class Review:
    """One review; of each person the newest that is more than a comment counts. `author` None: a deleted account."""

    author: str | None
    state: ReviewState
    by_writer: bool
    """Whether GitHub says that the reviewer has write permission, so that the review counts."""
    at: datetime | None = None  # When it was submitted; None where the answer lacks it.
    commit: str | None = None  # The head that was reviewed; None where the answer lacks it.


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A pull request with its base, reviews and the permission of one person, read in one answer.

    A field is None where GitHub's answer lacks it.
    """

    pull: PullRequest
    permission: Permission | None = None
    """The permission of the person whom the caller named."""
    comparison: Comparison | None = None
    """The head compared with the base; only known where the head contains the base's tip."""
    base_tip: str | None = None
    behind: int | None = None
    """How many commits of the base the head lacks."""
    ahead: int | None = None
    """How many commits of the head the base lacks."""
    decision: ReviewOutcome | None = None  # Also None where no rule that GitHub counts here requires a review.
    reviews: tuple[Review, ...] | None = None
    """The newest verdict of each person with write permission."""
    code_owners: tuple[str, ...] = ()  # Whose review GitHub requests, as far as it shows them.
    review_requests: tuple[
        str, ...
    ] = ()  # All whose review is requested; "a team or bot" for one that GitHub does not show.
    open_conversations: tuple[str, ...] | None = None  # Their ids, of the first page that has any; () if none is open.
    failing: bool | None = None  # Whether any check of the head has failed, or a run that a newer one replaced.
    below: tuple[StackMember, ...] = ()  # The open pull requests whose head branch is this base branch.
    stack: StackPosition | None = None  # Its place above another pull request, once IMQ has found it.
    head_guarded: bool = False  # Whether IMQ may push to the head branch although rules keep others from it.
    base_changed_at: datetime | None = None
    """When it got another base branch, or that one lost commits: checks that began before tested another merge.

    GitHub Actions tests the head merged with the base of that time, also in a rerun (actions/runner #980, Microphysics
    #1356, Start9Labs/start-technologies #3798).
    """
    person_id: int | None = None
    """The number of the account with the login that the caller named; None where GitHub lists no such collaborator."""


@dataclass(frozen=True, slots=True)
class OwnComment:
    """A comment that IMQ wrote, as a list shows it, on the pull request `number`."""

    number: int
    body: str
    updated_at: datetime
    id: int


class OwnComments(NamedTuple):
    """IMQ's comments that changed since an instant, the latest change first; earlier changes were not listed."""

    comments: tuple[OwnComment, ...]
    since: datetime


@dataclass(frozen=True, slots=True)
class OwnCheckRun:
    """What a check run of IMQ shows; `id` is None where GitHub does not name it, `title` is plain text."""

    head_sha: str
    id: int | None
    status: str
    conclusion: str | None
    title: str


OWN_CHECK = "IMQ"
"""The name of IMQ's own check run, which shows the state of the pull request and ends when the entry leaves.

Rules of a base branch may require it, so that only IMQ merges. It passes for the tested head right before IMQ merges
that head, and at no other time before the landing.
"""


def is_own_check(check: RequiredCheck, own_app: int | None) -> bool:
    """Whether IMQ itself reports this required check: no entry waits for it."""
    return check.name == OWN_CHECK and check.app_id in {None, own_app}


def unreported_check(required: Iterable[RequiredCheck], own_app: int | None) -> str | None:
    """Find a required check of IMQ's App that IMQ never reports, since it has another name than IMQ's own check."""
    for check in sorted(required, key=lambda each: each.name):
        if check.app_id is not None and check.app_id == own_app and not is_own_check(check, own_app):
            return check.name
    return None


_PASSED = frozenset({"success", "skipped", "neutral", "cancelled", "stale", "action_required"})
"""Conclusions of a workflow run that do not say that it broke: without a job, these have other causes."""


@dataclass(frozen=True, slots=True)
class WorkflowRun:
    """A run of a workflow of GitHub Actions on one commit; its check suite holds its jobs."""

    id: int
    name: str
    workflow: int
    event: str
    suite: int
    head_sha: str
    status: str
    """GitHub's value: queued, in_progress, completed, waiting, ..."""
    conclusion: str | None
    url: str | None
    begun_by: str
    last_run_by: str
    """Differs from `begun_by` after a rerun by somebody else."""
    created_at: datetime
    branch: str = ""
    """The branch that was pushed or dispatched on, or the head branch of the pull request."""
    path: str = ""
    """The path of its workflow file; empty where GitHub's answer lacks it."""

    @property
    def ended(self) -> bool:
        """Whether the run has ended, or waits for approval."""
        return self.status == "completed"

    @property
    def awaits_approval(self) -> bool:
        """Whether the run waits until a maintainer approves it.

        Such a run is `completed` with the conclusion `action_required` and has no jobs (claude-mem #3593, open-design
        #2683); webhooks have shown `waiting` and `action_required` as its status (pytorch/test-infra #8028).
        """
        return "action_required" in {self.status, self.conclusion} or self.status == "waiting"

    @property
    def under_way(self) -> bool:
        """Whether the run may still create jobs."""
        return not self.ended and not self.awaits_approval

    @property
    def broke(self) -> bool:
        """Whether the run ended and did not pass: `failure` or `startup_failure` where its file is invalid.

        Which of the two depends on the mistake (pytorch/test-infra #6329; hermes-agent #90686 and #111994).
        """
        return self.ended and self.conclusion not in _PASSED


@dataclass(frozen=True, slots=True)
class CheckSuite:
    """All check runs of one App on one commit."""

    app: str
    by_actions: bool
    status: str
    conclusion: str | None
    runs: int
    app_id: int | None = None
    created_at: datetime | None = None
    """GitHub opens a suite of each App that may write checks at every push ("Check suites", REST reference)."""
    own: bool = False
    id: int = 0

    @property
    def under_way(self) -> bool:
        """Whether the suite may still report. IMQ does not wait for its own.

        GitHub opens a suite for every App that may write checks; a suite without runs may remain queued for ever
        (oca-github-bot #141, sourcegraph #9058). Actions has a suite per workflow run, which always ends.
        """
        return self.status != "completed" and (self.runs > 0 or self.by_actions) and not self.own


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """What the commits of a pull request say, merge commits aside; not trusted."""

    co_authors: tuple[str, ...] = ()
    """Their authors as `Name <address>`, each once, without the author of the pull request."""
    titles: tuple[str, ...] = ()
    """The first line of each, oldest first."""


@dataclass(frozen=True, slots=True)
class CommitFacts:
    """What is known of a commit and of others, to tell why a check is absent on it."""

    message: str
    """The message of the commit itself; not trusted."""
    reports: tuple[CheckReport, ...]
    """The checks of the heads of the pull requests that changed last, and of the base branch's tip."""


@dataclass(frozen=True, slots=True)
class FailingCheck:
    """A failing check; for GitHub Actions one for each workflow run, with the names of its failed jobs."""

    check: str
    url: str | None = None
    """The link of the workflow run, or of the check; not trusted, but it begins with `http`."""
    jobs: tuple[str, ...] = ()

    def as_data(self) -> dict[str, Any]:
        return asdict(self) | {"jobs": list(self.jobs)}

    @classmethod
    def of_data(cls, data: Mapping[str, Any]) -> Self:
        return cls(data["check"], data["url"], tuple(data["jobs"]))

    @classmethod
    def all_of(cls, data: Mapping[str, Any]) -> tuple[Self, ...]:
        """Read the failing checks of an event, if it has any."""
        return tuple(map(cls.of_data, data.get("failing") or ()))


def as_data(failing: Iterable[FailingCheck]) -> list[dict[str, Any]]:
    return [each.as_data() for each in failing]
