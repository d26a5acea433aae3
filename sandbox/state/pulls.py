"""Pull requests and the conversation on them."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

from sandbox.state.accounts import Actor, App, User

if TYPE_CHECKING:
    from sandbox.state.repositories import Repository


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
