"""Commit statuses, and the workflow files of a repository."""

from dataclasses import dataclass
from datetime import datetime

from github_emulator.state.accounts import App, User


@dataclass(eq=False, slots=True, repr=False)
class Workflow:
    """A workflow file of a repository."""

    id: int
    name: str
    path: str
    created_at: datetime
    runs: int = 0
    """How many runs it has had; the newest has this number."""
    disabled: bool = False
    """Whether a person, or GitHub after a time without activity, switched it off."""


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
