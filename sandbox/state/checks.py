"""What is reported on commits."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Any

from sandbox.state.accounts import App, User

if TYPE_CHECKING:
    from sandbox.state.repositories import Repository


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
class WorkflowRun:
    """A run of a workflow of GitHub Actions on one commit; its jobs are check runs, one more for each attempt."""

    id: int
    suite: CheckSuite
    workflow: str
    created_at: datetime
    attempt: int = 1
    jobs: list["CheckRun"] = field(default_factory=list)
    awaited: set[str] = field(default_factory=set)
    """Names of the jobs that were asked for again and have not begun."""

    @property
    def repository(self) -> "Repository":
        """Where it runs."""
        return self.suite.repository

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
    started_at: datetime
    completed_at: datetime | None = None
    external_id: str = ""
    details_url: str | None = None
    workflow_run: WorkflowRun | None = None
    """For a job of Actions."""
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
