"""The one state from which every answer and every webhook derives: plain records, no behaviour.

Records refer to each other directly, compare by identity, and are changed only by the modules of `sandbox` that carry
the verbs (refs, pulls, merging, conversation, checks, rules). Times are aware and in UTC.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sandbox.keys import KeyPair

if TYPE_CHECKING:
    from sandbox.git import Git

ROLES = ("none", "read", "triage", "write", "maintain", "admin")
"""Roles on a repository, weakest first."""

ZERO_SHA = "0" * 40


@dataclass(eq=False, slots=True)
class User:
    """An account. `kind` is GitHub's own word: User, Organization or Bot."""

    id: int
    login: str
    kind: str
    created_at: datetime

    @property
    def email(self) -> str:
        """The private address that GitHub writes into commits."""
        return f"{self.id}+{self.login}@users.noreply.github.com"


@dataclass(eq=False, slots=True, repr=False)
class App:
    """A GitHub App. `bot` is the user `slug[bot]` under which it acts."""

    id: int
    slug: str
    client_id: str
    owner: User
    bot: User
    permissions: dict[str, str]
    events: frozenset[str]
    webhook_url: str | None
    webhook_secret: str
    key: KeyPair
    hook_id: int
    created_at: datetime

    @property
    def private_key(self) -> str:
        """The RSA key with which the app signs its tokens, as PEM."""
        return self.key.private

    @property
    def public_key(self) -> str:
        """The half that GitHub keeps, as PEM."""
        return self.key.public


@dataclass(eq=False, slots=True, repr=False)
class Installation:
    """An app on an account. `repositories` None means all of that account's, else ids."""

    id: int
    app: App
    account: User
    repositories: set[int] | None
    permissions: dict[str, str]
    created_at: datetime
    updated_at: datetime
    suspended_at: datetime | None = None

    def covers(self, repository: "Repository") -> bool:
        """Whether the app sees this repository."""
        return (
            self.suspended_at is None
            and repository.owner is self.account
            and (self.repositories is None or repository.id in self.repositories)
        )


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a person, or an app's bot with the permissions of its token."""

    user: User
    app: App | None = None
    permissions: Mapping[str, str] | None = None
    """For an app: permission -> read/write/admin, already narrowed by the token. None for a person."""

    def may(self, permission: str, level: str = "write") -> bool:
        """Whether an app's token carries the permission; a person's roles are checked elsewhere."""
        if self.permissions is None:
            return True
        order = ("none", "read", "write", "admin")
        return order.index(self.permissions.get(permission, "none")) >= order.index(level)


@dataclass(eq=False, slots=True)
class Label:
    """A repository's label."""

    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(eq=False, slots=True, repr=False)
class Comment:
    """A comment on a pull request. `reactions` maps GitHub's words (`+1`, `eyes`...) to logins."""

    id: int
    user: User
    body: str
    created_at: datetime
    updated_at: datetime
    app: App | None = None
    reactions: dict[str, list[str]] = field(default_factory=dict)


@dataclass(eq=False, slots=True, repr=False)
class Review:
    """A review; `state` is APPROVED, CHANGES_REQUESTED, COMMENTED or DISMISSED."""

    id: int
    user: User
    state: str
    body: str
    commit_id: str
    submitted_at: datetime


@dataclass(eq=False, slots=True, repr=False)
class IssueEvent:
    """One line of a pull request's timeline: labeled, unlabeled, closed, merged, head_ref_force_pushed..."""

    id: int
    event: str
    actor: User
    created_at: datetime
    label: Label | None = None
    assignee: User | None = None
    commit_id: str | None = None
    app: App | None = None
    rename: tuple[str, str] | None = None


@dataclass(eq=False, slots=True, repr=False)
class PullRequest:
    """A pull request. `head_repository` is None when the fork was deleted; `issue_id` is its id as an issue.

    `base_sha` is the base's tip when the head last changed, as GitHub shows it. `mergeable` holds for
    `mergeable_for` (base tip, head SHA) only: read it through `github.merging.mergeable`.
    """

    id: int
    issue_id: int
    number: int
    title: str
    body: str
    author: User
    repository: "Repository"
    head_repository: "Repository | None"
    head_owner: str
    head_branch: str
    head_sha: str
    base_branch: str
    base_sha: str
    created_at: datetime
    updated_at: datetime
    draft: bool = False
    maintainer_can_modify: bool = False
    state: str = "open"
    locked: bool = False
    closed_at: datetime | None = None
    closed_by: User | None = None
    merged_at: datetime | None = None
    merged_by: User | None = None
    merge_commit_sha: str | None = None
    """The commit that landed it once merged; the test merge commit before that."""
    mergeable: bool | None = None
    rebaseable: bool | None = None
    mergeable_for: tuple[str, str] | None = None
    labels: list[Label] = field(default_factory=list)
    assignees: list[User] = field(default_factory=list)
    comments: dict[int, Comment] = field(default_factory=dict)
    reviews: list[Review] = field(default_factory=list)
    events: list[IssueEvent] = field(default_factory=list)

    @property
    def merged(self) -> bool:
        """Whether it landed."""
        return self.merged_at is not None

    @property
    def from_fork(self) -> bool:
        """Whether the head lives, or lived, in another repository."""
        return self.head_repository is not self.repository


@dataclass(eq=False, slots=True, repr=False)
class CheckSuite:
    """The check runs of one app on one commit. `status` and `conclusion` follow its runs."""

    id: int
    app: App
    repository: "Repository"
    head_sha: str
    head_branch: str | None
    before: str | None
    created_at: datetime
    updated_at: datetime
    status: str = "queued"
    conclusion: str | None = None
    runs: list["CheckRun"] = field(default_factory=list)


@dataclass(eq=False, slots=True, repr=False)
class CheckRun:
    """One run of a check. `output` has title, summary, text; `annotations` only counts as a list."""

    id: int
    suite: CheckSuite
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    started_at: datetime
    completed_at: datetime | None = None
    external_id: str = ""
    details_url: str | None = None
    output: dict[str, str | None] = field(default_factory=dict)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    @property
    def app(self) -> App:
        """The app that reports it."""
        return self.suite.app

    @property
    def repository(self) -> "Repository":
        """Where it is reported."""
        return self.suite.repository


@dataclass(eq=False, slots=True, repr=False)
class CommitStatus:
    """One report of a commit status; the newest per context counts."""

    id: int
    sha: str
    context: str
    state: str
    description: str | None
    target_url: str | None
    creator: User
    created_at: datetime
    app: App | None = None


@dataclass(frozen=True, slots=True)
class RequiredCheck:
    """A required context; from any source when `app_id` is None."""

    context: str
    app_id: int | None = None


@dataclass(eq=False, slots=True)
class Protection:
    """Classic protection of one branch name or pattern."""

    id: int
    pattern: str
    created_at: datetime
    updated_at: datetime
    required_checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    required_approvals: int = 0
    enforce_admins: bool = False
    required_linear_history: bool = False
    required_conversation_resolution: bool = False
    restrict_pushes: list[str] | None = None
    """Logins and app slugs that may push; None for everyone with write access."""
    lock: bool = False
    allow_force_pushes: bool = False
    allow_deletions: bool = False


@dataclass(eq=False, slots=True)
class Ruleset:
    """A repository ruleset. `branches` are fnmatch patterns, `~DEFAULT_BRANCH` or `~ALL`."""

    id: int
    name: str
    branches: list[str]
    created_at: datetime
    updated_at: datetime
    enforcement: str = "active"
    required_checks: list[RequiredCheck] = field(default_factory=list)
    strict: bool = False
    required_approvals: int = 0
    linear_history: bool = False
    merge_queue: bool = False
    non_fast_forward: bool = False


@dataclass(eq=False, slots=True, repr=False)
class Repository:
    """A repository. `git` is its view of the object store that it shares with its forks."""

    id: int
    owner: User
    name: str
    git: "Git"
    private: bool
    default_branch: str
    created_at: datetime
    updated_at: datetime
    pushed_at: datetime
    parent: "Repository | None" = None
    archived: bool = False
    allow_merge_commit: bool = True
    allow_squash_merge: bool = True
    allow_rebase_merge: bool = True
    delete_branch_on_merge: bool = False
    next_number: int = 1
    collaborators: dict[str, str] = field(default_factory=dict)
    """Login -> role, besides the owner."""
    labels: dict[str, Label] = field(default_factory=dict)
    """By lower-case name: GitHub's label names ignore case."""
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    protections: dict[str, Protection] = field(default_factory=dict)
    rulesets: dict[int, Ruleset] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    suites_by_sha: dict[str, list[CheckSuite]] = field(default_factory=dict)
    runs: dict[int, CheckRun] = field(default_factory=dict)
    runs_by_sha: dict[str, list[CheckRun]] = field(default_factory=dict)
    statuses: dict[str, list[CommitStatus]] = field(default_factory=dict)
    """By SHA, oldest first."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"


@dataclass(eq=False, slots=True, repr=False)
class Delivery:
    """One attempt to deliver one webhook. A redelivery has a new id and keeps the GUID.

    `status` and `status_code` are as GitHub's deliveries API shows them; a dropped delivery or one without an answer
    has status code 0. `payload` is the exact JSON text that was signed; `duration` is in seconds.
    """

    id: int
    guid: str
    app: App
    event: str
    action: str | None
    installation_id: int | None
    repository_id: int | None
    url: str
    payload: str
    request_headers: dict[str, str]
    redelivery: bool = False
    delivered_at: datetime | None = None
    duration: float = 0.0
    status: str = "pending"
    status_code: int = 0
    response_headers: dict[str, str] = field(default_factory=dict)
    response_body: str = ""


@dataclass(eq=False, slots=True, repr=False)
class State:
    """Everything there is."""

    users: dict[str, User] = field(default_factory=dict)
    """By lower-case login."""
    apps: dict[int, App] = field(default_factory=dict)
    installations: dict[int, Installation] = field(default_factory=dict)
    repositories: dict[str, Repository] = field(default_factory=dict)
    """By lower-case full name."""
    deliveries: list[Delivery] = field(default_factory=list)
    """Oldest first."""
    last_id: dict[str, int] = field(default_factory=dict)

    def next_id(self, kind: str) -> int:
        """A number that no other record of this kind has; the kinds start far apart, so mixed-up ids never match."""
        start = 1000 * (sum(ord(letter) * (place + 1) for place, letter in enumerate(kind)) + 1)
        self.last_id[kind] = self.last_id.get(kind, start) + 1
        return self.last_id[kind]

    def installations_of(self, repository: Repository) -> Iterator[Installation]:
        """The installations that see this repository, oldest first."""
        return (installation for installation in self.installations.values() if installation.covers(repository))
