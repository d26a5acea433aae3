"""What people and bots leave on a pull request: labels, comments, reviews, timeline events."""

from dataclasses import dataclass, field
from datetime import datetime

from github_emulator.state.accounts import Actor, App, User


@dataclass(eq=False, slots=True)
class Label:
    """A repository's label."""

    id: int
    name: str
    color: str = "ededed"
    description: str | None = None


@dataclass(eq=False, slots=True, repr=False)
class Reaction:
    """One of GitHub's eight words (`+1`, `eyes`...), given by somebody to a comment."""

    id: int
    user: User
    content: str
    created_at: datetime


@dataclass(eq=False, slots=True, repr=False)
class Comment:
    """A comment on a pull request, with the reactions given to it, oldest first."""

    id: int
    user: User
    body: str
    created_at: datetime
    updated_at: datetime
    app: App | None = None
    given: list[Reaction] = field(default_factory=list)

    @property
    def reactions(self) -> dict[str, list[str]]:
        """GitHub's word -> logins of those who gave it."""
        words: dict[str, list[str]] = {}
        for reaction in self.given:
            words.setdefault(reaction.content, []).append(reaction.user.login)
        return words


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
class Thread:
    """A conversation on a line of the diff, opened by one comment of a review; `id` is that comment's."""

    id: int
    review: Review
    path: str
    body: str
    resolved_by: User | None = None


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


@dataclass(frozen=True, slots=True)
class AutoMerge:
    """Who asked GitHub to merge a pull request by itself, and how."""

    actor: Actor
    method: str
    title: str | None = None
