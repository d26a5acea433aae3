"""Repositories, which hold everything that belongs to them."""

from dataclasses import dataclass, field
from datetime import datetime

from sandbox.git import Git
from sandbox.state.accounts import User
from sandbox.state.checks import CheckRun, CheckSuite, CommitStatus, Workflow, WorkflowRun
from sandbox.state.pulls import Label, PullRequest
from sandbox.state.rules import Protection, Ruleset
from sandbox.state.stacks import Stack


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
    """Whose fork pull requests wait for approval: `first_time_contributors`, `all_external_contributors`, nobody's."""
    app_approval: bool = False
    """Whether runs that an app's push causes wait for approval."""
    statuses: dict[str, list[CommitStatus]] = field(default_factory=dict)
    """By SHA, oldest first."""
    deployed: dict[str, set[str]] = field(default_factory=dict)
    """SHA -> environments to which it was deployed with success."""

    @property
    def full_name(self) -> str:
        """`owner/name`."""
        return f"{self.owner.login}/{self.name}"
