"""Events as plain data: which record changed, the action in GitHub's word, and who acted.

May not live here: JSON. `github_emulator.webhooks` makes payloads of them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from github_emulator.state import (
    Actor,
    Comment,
    Installation,
    Label,
    Protection,
    PullRequest,
    Repository,
    Review,
    Ruleset,
    Team,
    Thread,
    User,
)


class Event:
    """Any event."""

    __slots__ = ()


class WebhookEvent(Event):
    """A change of which GitHub sends webhooks, with its `action` in GitHub's word where it has one."""

    __slots__ = ()

    @property
    def scope(self) -> Repository | User | Installation:
        """Whose apps get the webhook: those installed on the repository or organisation, or that of an installation."""
        raise NotImplementedError

    @property
    def sender(self) -> User:
        """The account that GitHub names as the sender."""
        raise NotImplementedError


class RepositoryEvent(WebhookEvent):
    """A change of a repository's records."""

    __slots__ = ()

    @property
    def scope(self) -> Repository:
        raise NotImplementedError


# Pull requests


@dataclass(frozen=True, slots=True)
class _PullRequestEvent(RepositoryEvent):
    pull: PullRequest
    action: str
    actor: Actor

    @property
    def scope(self) -> Repository:
        return self.pull.repository

    @property
    def sender(self) -> User:
        return self.actor.user


@dataclass(frozen=True, slots=True)
class PullRequestChanged(_PullRequestEvent):
    """A pull request was opened, closed, labeled...; `details` are the action's own fields, in GitHub's words."""

    label: Label | None = None
    assignee: User | None = None
    reviewer: User | None = None
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CommentChanged(_PullRequestEvent):
    """A comment was created, edited or deleted."""

    comment: Comment
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReviewChanged(_PullRequestEvent):
    """A review was submitted or dismissed."""

    review: Review


@dataclass(frozen=True, slots=True)
class ThreadChanged(_PullRequestEvent):
    """A conversation was resolved or reopened."""

    thread: Thread


@dataclass(frozen=True, slots=True)
class ReviewCommentChanged(_PullRequestEvent):
    """A comment on a line of the diff was created."""

    thread: Thread


@dataclass(frozen=True, slots=True)
class _PublishedChange(Event):
    pull: PullRequest
    actor: Actor


@dataclass(frozen=True, slots=True)
class HeadMoved(_PublishedChange):
    """A pull request has another head, and its `synchronize` was published; `before` is the old head."""

    before: str | None


@dataclass(frozen=True, slots=True)
class BaseChanged(_PublishedChange):
    """A pull request has another base branch, and its `edited` was published."""


@dataclass(frozen=True, slots=True)
class PullRequestClosed(_PublishedChange):
    """A pull request was closed without a merge, and its `closed` was published."""


@dataclass(frozen=True, slots=True)
class PullRequestDrafted(_PublishedChange):
    """A pull request became a draft, and its `converted_to_draft` was published."""


# Repositories and their rules


@dataclass(frozen=True, slots=True)
class ActorEvent(RepositoryEvent):
    """An event of a repository that an actor caused."""

    repository: Repository
    actor: Actor

    @property
    def scope(self) -> Repository:
        return self.repository

    @property
    def sender(self) -> User:
        return self.actor.user


@dataclass(frozen=True, slots=True)
class _RepositoryEvent(ActorEvent):
    action: str


@dataclass(frozen=True, slots=True)
class RepositoryChanged(_RepositoryEvent):
    """A repository was renamed, archived or unarchived, or transferred from its `former_owner`."""

    details: Mapping[str, Any] = field(default_factory=dict)
    former_owner: User | None = None


@dataclass(frozen=True, slots=True)
class LabelChanged(_RepositoryEvent):
    """A repository's label was created, edited or deleted."""

    label: Label
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ProtectionChanged(_RepositoryEvent):
    """Classic protection was created, edited or deleted."""

    protection: Protection


@dataclass(frozen=True, slots=True)
class ProtectionsSwitched(_RepositoryEvent):
    """All classic protections of a repository were disabled, or enabled again."""


@dataclass(frozen=True, slots=True)
class RulesetChanged(_RepositoryEvent):
    """A repository's ruleset was created, edited or deleted."""

    ruleset: Ruleset


@dataclass(frozen=True, slots=True)
class OrganisationRulesetChanged(WebhookEvent):
    """An organisation's ruleset was created, edited or deleted."""

    ruleset: Ruleset
    action: str
    actor: Actor

    @property
    def scope(self) -> User:
        assert self.ruleset.organisation is not None, "the ruleset is no repository's"
        return self.ruleset.organisation

    @property
    def sender(self) -> User:
        return self.actor.user


@dataclass(frozen=True, slots=True)
class TeamChanged(WebhookEvent):
    """A team was created or deleted."""

    team: Team
    action: str
    actor: Actor

    @property
    def scope(self) -> User:
        return self.team.organisation

    @property
    def sender(self) -> User:
        return self.actor.user


@dataclass(frozen=True, slots=True)
class MembershipChanged(TeamChanged):
    """A person was added to a team, or removed."""

    member: User


@dataclass(frozen=True, slots=True)
class RefMoved(ActorEvent):
    """A reference (`refs/heads/main`, `refs/tags/v1`) was created, moved or deleted.

    `before` and `after` are commits, or the objects of annotated tags; None: there is none.
    """

    ref: str
    before: str | None
    after: str | None
    forced: bool


# Installations


@dataclass(frozen=True, slots=True)
class _InstallationEvent(WebhookEvent):
    """A change of which only the installation's app gets a webhook, subscribed or not."""

    installation: Installation

    @property
    def scope(self) -> Installation:
        return self.installation

    @property
    def sender(self) -> User:
        return self.installation.account


@dataclass(frozen=True, slots=True)
class InstallationChanged(_InstallationEvent):
    """An app was installed, removed, suspended or unsuspended, or its new permissions were accepted."""

    action: str
    repositories: Sequence[Repository]


@dataclass(frozen=True, slots=True)
class RepositorySelectionChanged(_InstallationEvent):
    """An installation sees other repositories than before."""

    added: Sequence[Repository]
    removed: Sequence[Repository]

    @property
    def action(self) -> str:
        """GitHub's word."""
        return "added" if self.added else "removed"


@dataclass(frozen=True, slots=True)
class AccountRenamed(_InstallationEvent):
    """The account that an app is installed on has another login than `before`."""

    before: str

    @property
    def action(self) -> str:
        """GitHub's word."""
        return "renamed"
