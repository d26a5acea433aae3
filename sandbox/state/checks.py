"""What is reported on commits."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sandbox.state.accounts import App, User

if TYPE_CHECKING:
    from sandbox.state.pulls import PullRequest
    from sandbox.state.repositories import Repository


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


@dataclass(eq=False, slots=True, repr=False)
class Workflow:
    """A workflow file of a repository."""

    id: int
    name: str
    path: str
    created_at: datetime
    runs: int = 0
    """How many runs it has had; the newest has this number."""


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
    parked: str | None = None
    """Why it waits for a person's approval: "fork" or "app"; None when it does not."""
    announced: str = "requested"
    """The newest action of its `workflow_run` webhooks."""
    jobs: list["CheckRun"] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)
    """Names of the jobs that will run and have no check run yet, in this attempt."""

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
    details_url: str | None = None
    workflow_run: WorkflowRun | None = None
    """For a job of Actions."""
    attempt: int = 1
    """For a job of Actions: the attempt of its workflow run."""
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
