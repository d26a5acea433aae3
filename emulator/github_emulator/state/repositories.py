"""Repositories with their pull requests, stacks and check suites: records that refer to each other."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from github_emulator.core.git import Git
from github_emulator.state.accounts import App, User
from github_emulator.state.checks import CommitStatus, Workflow
from github_emulator.state.conversation import AutoMerge, Comment, IssueEvent, Label, Review, Thread
from github_emulator.state.rules import Protection, Ruleset


@dataclass(eq=False, slots=True, repr=False)
class PullRequest:
    """A pull request. `head_repository` is None when the fork was deleted; `issue_id` is its id as an issue.

    `base_sha` is the base's tip when the head last changed, as GitHub shows it. `mergeable` holds for
    `mergeable_for` (base tip, head SHA) only: read it through `Mergeability.mergeable`.
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
    last_pusher: User
    """Who made the last push that changed something, and the head it made."""
    reviewable_sha: str
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
    auto_merge: AutoMerge | None = None
    mergeable: bool | None = None
    rebaseable: bool | None = None
    mergeable_for: tuple[str, str] | None = None
    labels: list[Label] = field(default_factory=list)
    assignees: list[User] = field(default_factory=list)
    reviewers: list[User] = field(default_factory=list)
    """Those of whom somebody requested a review, and who have given none since; code owners aside."""
    comments: dict[int, Comment] = field(default_factory=dict)
    reviews: list[Review] = field(default_factory=list)
    threads: list[Thread] = field(default_factory=list)
    events: list[IssueEvent] = field(default_factory=list)

    @property
    def merged(self) -> bool:
        """Whether it landed."""
        return self.merged_at is not None

    @property
    def from_fork(self) -> bool:
        """Whether the head lives, or lived, in another repository."""
        return self.head_repository is not self.repository


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Stack:
    """Pull requests of which each is based on the head branch of the one before; the first one is the bottom.

    Merged members stay in it (rjmurillo/ai-agents #5473). `number` is one of the repository's, as a pull request's is.
    """

    id: int
    number: int
    base_branch: str
    pulls: tuple[PullRequest, ...]


@dataclass(eq=False, slots=True, repr=False)
class CheckSuite:
    """The check runs of one app on one commit, or of one workflow run. `status` and `conclusion` follow its runs.

    GitHub Actions opens a suite per workflow run (lewagon/wait-on-check-action #156, merge-gatekeeper #96).
    """

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
    workflow_run: "WorkflowRun | None" = None
    """For a suite of GitHub Actions."""


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Artifact:
    """What a workflow run uploaded: a zip archive under a name."""

    id: int
    name: str
    content: bytes
    created_at: datetime
    expired: bool = False


@dataclass(eq=False, slots=True, repr=False)
class WorkflowRun:
    """A run of a workflow of GitHub Actions; its jobs are check runs, one more for each attempt.

    `tested_sha` is what the jobs check out: the head itself, or for `pull_request` the test merge commit. The check
    runs are reported on the suite's head all the same. A rerun tests the same commit (docs: "Re-running workflows").
    """

    id: int
    suite: CheckSuite
    workflow: Workflow
    number: int
    event: str
    tested_sha: str
    actor: User
    created_at: datetime
    pull: "PullRequest | None" = None
    attempt: int = 1
    started_at: datetime | None = None
    """When the newest attempt was asked for; None for the first."""
    rerun_by: User | None = None
    label: str | None = None
    """The label that was set, if its event is `labeled`: `github.event.label.name`."""
    labels: frozenset[str] = frozenset()
    """The pull request's labels at that event."""
    title: str = ""
    """The pull request's title at that event: a rerun gets the same event (amannn/action-semantic-pull-request,
    `src/index.js`; deepakputhraya/action-pr-title, `index.js`)."""
    parked: str | None = None
    """Why it waits for a person's approval: "fork" or "app"; None when it does not."""
    group: str | None = None
    """Its concurrency group."""
    announced: str = "requested"
    """The newest action of its `workflow_run` webhooks."""
    jobs: list["CheckRun"] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)
    """Names of the jobs that will run and have no check run yet, in this attempt."""
    artifacts: list[Artifact] = field(default_factory=list)
    """Of all attempts, oldest first."""

    @property
    def repository(self) -> "Repository":
        """Where it runs."""
        return self.suite.repository

    @property
    def head_sha(self) -> str:
        """The commit on which it reports."""
        return self.suite.head_sha

    @property
    def running(self) -> bool:
        """Whether a job is under way, or will be."""
        return bool(self.awaited) or any(job.status != "completed" for job in self.current_jobs())

    def add(self, job: "CheckRun") -> None:
        """A job begins."""
        self.jobs.append(job)
        self.awaited.discard(job.name)

    def current_jobs(self) -> list["CheckRun"]:
        """The newest run of each job."""
        return list({job.name: job for job in self.jobs}.values())


@dataclass(eq=False, slots=True, repr=False)
class CheckRun:
    """One run of a check. `output` has title, summary, text; `annotations` only counts as a list."""

    id: int
    suite: CheckSuite
    name: str
    head_sha: str
    status: str
    conclusion: str | None
    created_at: datetime
    started_at: datetime
    completed_at: datetime | None = None
    external_id: str = ""
    """Empty where its app named none: octokit/webhooks, `check_run/created.payload.json`."""
    details_url: str | None = None
    workflow_run: WorkflowRun | None = None
    """For a job of Actions."""
    attempt: int = 1
    """For a job of Actions: the attempt of its workflow run."""
    labels: Sequence[str] = ("ubuntu-latest",)
    """For a job of Actions: those of the runner that it asked for."""
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


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Activity:
    """One move of a branch; `ref` is its full name. None: there was no branch before it, or is none after it."""

    id: int
    kind: str
    ref: str
    before: str | None
    after: str | None
    at: datetime
    actor: User


@dataclass(eq=False, slots=True, repr=False)
class Repository:
    """A repository. `git` is its view of the object store that it shares with its forks."""

    id: int
    owner: User
    name: str
    git: Git
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
    allow_auto_merge: bool = False
    delete_branch_on_merge: bool = False
    next_number: int = 1
    collaborators: dict[str, str] = field(default_factory=dict)
    """Login -> role, besides the owner."""
    labels: dict[str, Label] = field(default_factory=dict)
    """By lower-case name: GitHub's label names ignore case."""
    pulls: dict[int, PullRequest] = field(default_factory=dict)
    stacks: list[Stack] = field(default_factory=list)
    protections: dict[str, Protection] = field(default_factory=dict)
    disabled_protections: dict[str, Protection] = field(default_factory=dict)
    """Those that were disabled together; see `Rules.enable_protections`."""
    rulesets: dict[int, Ruleset] = field(default_factory=dict)
    suites: dict[int, CheckSuite] = field(default_factory=dict)
    suites_by_sha: dict[str, list[CheckSuite]] = field(default_factory=dict)
    runs: dict[int, CheckRun] = field(default_factory=dict)
    runs_by_sha: dict[str, list[CheckRun]] = field(default_factory=dict)
    workflows: dict[str, Workflow] = field(default_factory=dict)
    """By path."""
    workflow_runs: dict[int, WorkflowRun] = field(default_factory=dict)
    fork_approval: str = ""
    """Whose fork pull requests wait for approval: `first_time_contributors`, `all_external_contributors`, or none."""
    app_approval: bool = False
    """Whether runs that an app's push causes wait for approval."""
    statuses: dict[str, list[CommitStatus]] = field(default_factory=dict)
    """By SHA, oldest first."""
    activities: list[Activity] = field(default_factory=list)
    """The moves of its branches, oldest first."""
    deployed: dict[str, set[str]] = field(default_factory=dict)
    """SHA -> environments to which it was deployed with success."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"
