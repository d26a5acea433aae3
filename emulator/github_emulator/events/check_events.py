"""Events of checks, and what CI systems learn besides pull requests."""

from dataclasses import dataclass

from github_emulator.events.events import ActorEvent, Event, RepositoryEvent
from github_emulator.state import Actor, CheckRun, CheckSuite, CommitStatus, Repository, User, WorkflowRun


@dataclass(frozen=True, slots=True)
class CheckRunChanged(RepositoryEvent):
    """A check run was created, completed or rerequested; without an actor its own app did it."""

    run: CheckRun
    action: str
    actor: Actor | None = None

    @property
    def scope(self) -> Repository:
        return self.run.repository

    @property
    def sender(self) -> User:
        return self.actor.user if self.actor else self.run.app.bot


@dataclass(frozen=True, slots=True)
class CheckSuiteChanged(RepositoryEvent):
    """A check suite was requested, rerequested or completed; without an actor its own app did it."""

    suite: CheckSuite
    action: str
    actor: Actor | None = None

    @property
    def scope(self) -> Repository:
        return self.suite.repository

    @property
    def sender(self) -> User:
        return self.actor.user if self.actor else self.suite.app.bot


@dataclass(frozen=True, slots=True)
class WorkflowRunChanged(RepositoryEvent):
    """A workflow run was requested, is in progress, or completed."""

    run: WorkflowRun
    action: str

    @property
    def scope(self) -> Repository:
        return self.run.repository

    @property
    def sender(self) -> User:
        return self.run.rerun_by or self.run.actor


@dataclass(frozen=True, slots=True)
class StatusReported(ActorEvent):
    """A commit status was reported."""

    status: CommitStatus


# What CI systems learn besides pull requests


@dataclass(frozen=True, slots=True)
class CommitPushed(Event):
    """A branch has a new tip `sha`, and GitHub has requested its check suites; `before` is the old tip."""

    repository: Repository
    branch: str
    before: str | None
    sha: str
    actor: Actor


@dataclass(frozen=True, slots=True)
class CheckRerequested(Event):
    """A check run shall run again."""

    run: CheckRun


@dataclass(frozen=True, slots=True)
class WorkflowRunApproved(Event):
    """A workflow run that waited for approval may start."""

    run: WorkflowRun
