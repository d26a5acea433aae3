"""Schemas of webhook payloads, with the fields that IMQ reads; GitHub documents them."""

from datetime import datetime
from typing import Annotated, Any

from pydantic import AfterValidator, AliasChoices, Field

from queue_engine.core.read_model import ReadModel


def _without_nul(text: str) -> str:
    if "\x00" in text:
        raise ValueError("has a NUL character, which no database keeps")
    return text


_NO_NUL = r"^[^\x00]*$"

Word = Annotated[str, Field(max_length=255, pattern=_NO_NUL)]
"""A name. GitHub's own limits are lower."""

Phrase = Annotated[str, Field(max_length=1024, pattern=_NO_NUL)]

Text = Annotated[str, AfterValidator(_without_nul)]
"""Any text, even with half of a surrogate pair, which a pattern refuses."""

Number = Annotated[int, Field(ge=0, lt=2**31)]

_COMMITS_LISTED = 2048
"""The most commits that GitHub lists in a push ("Webhook events and payloads: push")."""

Identity = Annotated[int, Field(ge=0, lt=2**63)]


class Sender(ReadModel):
    login: Word
    type: Word = "User"


class Repository(ReadModel):
    id: Identity
    full_name: Word
    default_branch: Word | None = None
    pushed_at: datetime | None = None


class Id(ReadModel):
    id: Identity


class Payload(ReadModel):
    """The common fields of all deliveries to an App; each event has a model of its own."""

    installation: Id
    action: Word | None = None
    repository: Repository | None = None
    sender: Sender | None = None

    def common(self, delivery: str) -> dict[str, Any]:
        """Return the fields that every event has."""
        owner, _, name = self.repository.full_name.partition("/") if self.repository else ("", "", "")
        return {
            "delivery": delivery,
            "action": self.action,
            "installation_id": self.installation.id,
            "repository_id": self.repository.id if self.repository else None,
            "owner": owner or None,
            "name": name or None,
            "sender": self.sender.login if self.sender else None,
            "sender_is_bot": self.sender is not None and self.sender.type == "Bot",
        }


class RepositoryName(ReadModel):
    """A repository that left the installation. GitHub's schema promises neither field."""

    id: Identity | None = None
    full_name: Word = ""


class InstallationEvent(Payload):
    repositories_added: list[Repository] = Field(default_factory=list)
    repositories_removed: list[RepositoryName] = Field(default_factory=list)


class OfRepository(Payload):
    repository: Repository


class Label(ReadModel):
    name: Phrase


class Head(ReadModel):
    sha: Word


class Base(ReadModel):
    ref: Word


class PullRequest(ReadModel):
    number: Number
    title: Phrase = ""
    user: Sender | None = None
    head: Head
    base: Base
    updated_at: datetime
    state: Word
    merged: bool | None = None
    draft: bool | None = None
    labels: tuple[Label, ...] = ()
    body: Text | None = None
    auto_merge: dict[str, Any] | None = None
    """In each payload since 2021 (octokit/webhooks #408, github/rest-api-description #2491)."""


class Changes(ReadModel):
    base: dict[str, Any] | None = None
    title: dict[str, Any] | None = None
    body: dict[str, Any] | None = None


class LabelChanges(ReadModel):
    name: dict[str, Any] | None = None


class LabelEvent(OfRepository):
    label: Label
    changes: LabelChanges = Field(default_factory=LabelChanges)


class PullRequestEvent(OfRepository):
    action: Word
    pull_request: PullRequest
    label: Label | None = None
    before: Word | None = None
    changes: Changes = Field(default_factory=Changes)


class Review(ReadModel):
    id: Identity | None = None
    state: Word
    user: Sender | None = None
    body: Text | None = None
    commit_id: Word | None = None
    submitted_at: datetime | None = None
    author_association: Word | None = None


class ReviewEvent(OfRepository):
    action: Word
    pull_request: PullRequest
    review: Review | None = None


class Thread(ReadModel):
    node_id: Word


class ReviewThreadEvent(OfRepository):
    """Of a conversation; GitHub's name of the event is `pull_request_review_thread`."""

    action: Word
    pull_request: PullRequest
    thread: Thread


class Issue(ReadModel):
    number: Number
    user: Sender | None = None
    pull_request: dict[str, Any] | None = None
    """Present only if the issue is a pull request."""
    updated_at: datetime | None = None


class Comment(ReadModel):
    id: Identity
    body: Text | None = None
    created_at: datetime | None = None
    author_association: Word | None = None
    performed_via_github_app: dict[str, Any] | None = None
    """The App that wrote the comment, also in a person's name. Reviews do not tell theirs."""


class CommentEvent(OfRepository):
    action: Word
    issue: Issue
    comment: Comment


class AppName(Id):
    slug: Word = ""


class BranchName(ReadModel):
    """The branch of a check suite, or one that has the commit of a status. A suite of a fork has none."""

    name: Word | None = Field(default=None, validation_alias=AliasChoices("head_branch", "name"))


class CheckRun(ReadModel):
    id: Identity | None = None
    name: Phrase
    head_sha: Word
    conclusion: Word | None = None
    html_url: str | None = None
    details_url: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None
    external_id: Phrase | None = None
    app: AppName | None = None
    check_suite: BranchName | None = None


class CheckRunEvent(OfRepository):
    action: Word
    check_run: CheckRun


class SuiteApp(ReadModel):
    id: Identity | None = None


class PullRequestNumber(ReadModel):
    """A pull request of which only the number matters."""

    number: Number


class CheckSuite(ReadModel):
    """A check suite. By its schema the App's id may be null."""

    head_sha: Word
    conclusion: Word | None = None
    app: SuiteApp | None = None
    pull_requests: list[PullRequestNumber] = Field(default_factory=list, max_length=100)
    """Without pull requests of forks (docs, "Webhook events and payloads")."""
    latest_check_runs_count: int | None = None

    @property
    def broke_at_once(self) -> bool:
        """Whether it ended without any check run, and did not pass: the file of its workflow run is invalid."""
        return self.conclusion in {"failure", "startup_failure"} and self.latest_check_runs_count == 0


class CheckSuiteEvent(OfRepository):
    action: Word
    check_suite: CheckSuite


class WorkflowRun(ReadModel):
    head_sha: Word
    status: Word | None = None
    conclusion: Word | None = None


class WorkflowRunEvent(OfRepository):
    action: Word
    workflow_run: WorkflowRun


class StatusEvent(OfRepository):
    sha: Word
    context: Phrase
    state: Word
    target_url: str | None = None
    updated_at: datetime | None = None
    branches: list[BranchName] = Field(default_factory=list, max_length=100)


class PushedCommit(ReadModel):
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    modified: tuple[str, ...] = ()


class PushEvent(OfRepository):
    ref: Word
    after: Word
    before: Word
    deleted: bool = False
    created: bool = False
    forced: bool = False
    commits: tuple[PushedCommit, ...] = ()

    @property
    def lists_all_changes(self) -> bool:
        """Whether the listed commits are all changes of the push; a forced push lists not all."""
        return not (self.forced or self.created) and 0 < len(self.commits) < _COMMITS_LISTED

    def touches(self, path: str) -> bool:
        """Whether a listed commit adds, changes or removes the file, or anything beneath it: a directory of that name
        counts by the files in it."""
        named = (name for each in self.commits for files in (each.added, each.removed, each.modified) for name in files)
        return any(name == path or name.startswith(f"{path}/") for name in named)
