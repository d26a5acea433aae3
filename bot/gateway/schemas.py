"""Schemas of GitHub's answers, with the fields that IMQ reads. Others are ignored; optional ones have defaults."""

from datetime import datetime
from typing import Any

from pydantic import Field, SecretStr

from queue_engine.core.read_model import ReadModel


class UserAnswer(ReadModel):
    """A person, a bot or an organisation."""

    login: str
    type: str = "User"


class CommitUserAnswer(ReadModel):
    """A commit's author or committer; null or empty if unknown (schema `commit`; danger/kotlin #249, octocrab #677)."""

    login: str = ""


class LabelAnswer(ReadModel):
    name: str


class IdAnswer(ReadModel):
    """Anything of which only the id matters: an App, or something just created."""

    id: int


class RepositoryAnswer(ReadModel):
    """A repository. GitHub shows the merge settings only to those who may push; None means unknown."""

    id: int
    name: str
    full_name: str
    owner: UserAnswer
    archived: bool = False
    private: bool = True
    visibility: str = "public"
    """An older Enterprise Server does not show it; `private` is true for an internal repository."""
    default_branch: str = ""
    allow_merge_commit: bool | None = None
    allow_squash_merge: bool | None = None
    allow_rebase_merge: bool | None = None

    @property
    def public(self) -> bool:
        """Return whether everybody may read it."""
        return not self.private and self.visibility == "public"


class SideAnswer(ReadModel):
    """The head or the base of a pull request; `repo` is None when the fork was deleted."""

    sha: str
    ref: str
    repo: RepositoryAnswer | None = None


class PullRequestAnswer(ReadModel):
    """`GET /repos/{owner}/{repo}/pulls/{pull_number}`. `user` is None when the account was deleted."""

    number: int
    title: str
    user: UserAnswer | None = None
    assignees: list[UserAnswer] | None = None
    state: str
    merged: bool = False
    draft: bool | None = None
    head: SideAnswer
    base: SideAnswer
    body: str | None = None
    mergeable: bool | None = None
    rebaseable: bool | None = None
    mergeable_state: str | None = None
    labels: list[LabelAnswer] = Field(default_factory=list)
    merge_commit_sha: str | None = None
    maintainer_can_modify: bool = False
    node_id: str = ""
    html_url: str = ""
    auto_merge: dict[str, Any] | None = None
    stack: dict[str, Any] | None = None
    """Absent or null outside of a stack; `base` names the branch on which the stack lands (gh-stack, "REST API")."""
    comments: int = 0
    updated_at: datetime | None = None
    merged_at: datetime | None = None
    merged_by: UserAnswer | None = None


class NumberAnswer(ReadModel):
    """A pull request of which only the number matters."""

    number: int


class ReviewAnswer(ReadModel):
    """A review. `author_association` says whether its author may write: OWNER, MEMBER, COLLABORATOR, or less."""

    user: UserAnswer | None = None
    state: str
    author_association: str = "NONE"
    submitted_at: datetime | None = None
    commit_id: str | None = None


class PersonAnswer(ReadModel):
    """Who wrote a commit, as git has it. The schema promises no part (`git-user`)."""

    name: str = ""
    email: str = ""


class VerificationAnswer(ReadModel):
    """What GitHub says of a commit's signature; `reason` is valid, unsigned, bad_email, gpgverify_error..."""

    verified: bool
    reason: str = ""


class AuthoredAnswer(ReadModel):
    """The git part of a pull request's commit. Without `verification` GitHub says nothing of its signature."""

    author: PersonAnswer | None = None
    message: str = ""
    verification: VerificationAnswer | None = None


class ListedPullCommitAnswer(ReadModel):
    """A commit of a pull request. `author` is the account whose address it carries, if it is one's."""

    sha: str = ""
    commit: AuthoredAnswer
    author: CommitUserAnswer | None = None
    parents: list["ShaAnswer"] = Field(default_factory=list)


class ContentAnswer(ReadModel):
    """A file's content; `encoding` is none for what is larger than a megabyte."""

    type: str
    encoding: str = "none"
    content: str = ""


class ShaAnswer(ReadModel):
    """A git object by its name."""

    sha: str


class RefAnswer(ReadModel):
    """A branch by its full name, with what it points at."""

    ref: str
    object: ShaAnswer


class CommitAnswer(ReadModel):
    """`GET /repos/{owner}/{repo}/git/commits/{commit_sha}`."""

    sha: str
    tree: ShaAnswer
    parents: list[ShaAnswer]
    message: str = ""


class FileAnswer(ReadModel):
    """A file, folder or submodule in a tree."""

    path: str
    mode: str
    type: str
    sha: str
    size: int | None = None


class FilesAnswer(ReadModel):
    """`GET /repos/{owner}/{repo}/git/trees/{tree_sha}`."""

    tree: list[FileAnswer]
    truncated: bool


class InnerCommitAnswer(ReadModel):
    """The git part of a listed commit. Without `verification` GitHub says nothing of its signature."""

    tree: ShaAnswer
    verification: VerificationAnswer | None = None


class ListedCommitAnswer(ReadModel):
    """A commit where GitHub lists it. `author` and `committer` are the accounts whose addresses it carries."""

    sha: str
    commit: InnerCommitAnswer
    parents: list[ShaAnswer]
    author: CommitUserAnswer | None = None
    committer: CommitUserAnswer | None = None


class ComparisonAnswer(ReadModel):
    """`GET /repos/{owner}/{repo}/compare/{basehead}`: commits in chronological order, at most 250 of them."""

    base_commit: ListedCommitAnswer
    merge_base_commit: ListedCommitAnswer
    behind_by: int
    commits: list[ListedCommitAnswer]


class ReporterAnswer(ReadModel):
    """The App that reports. No two Apps have one slug; that of GitHub Actions is `github-actions` everywhere."""

    id: int
    slug: str = ""
    name: str = ""


class CheckRunAnswer(ReadModel):
    """A check run; `conclusion` is None until it is completed."""

    id: int
    name: str
    status: str
    conclusion: str | None = None
    app: ReporterAnswer | None = None
    check_suite: IdAnswer | None = None
    external_id: str | None = None
    html_url: str | None = None
    details_url: str | None = None
    started_at: datetime | None = None
    completed_at: datetime | None = None


class AnnotationAnswer(ReadModel):
    """An annotation of a check run."""

    message: str | None = None
    title: str | None = None
    annotation_level: str | None = None


class ArtifactAnswer(ReadModel):
    """What a workflow run uploaded, as an archive."""

    id: int
    name: str
    size_in_bytes: int
    expired: bool


class GroupMemberAnswer(ReadModel):
    """A workflow run that holds a concurrency group, or waits for it."""

    run_name: str
    run_html_url: str | None = None


class ConcurrencyGroupAnswer(ReadModel):
    """A concurrency group with its runs under way."""

    group_members: list[GroupMemberAnswer]


class CheckSuiteAnswer(ReadModel):
    """A check suite; `latest_check_runs_count` counts the newest run of each of its checks."""

    id: int
    app: ReporterAnswer | None = None
    status: str | None = None
    conclusion: str | None = None
    latest_check_runs_count: int = 0
    created_at: datetime | None = None


class WorkflowRunAnswer(ReadModel):
    """A workflow run of GitHub Actions. One that was parked for approval is completed, `action_required`.

    Accounts that were deleted are None.
    """

    id: int
    name: str | None = None
    path: str | None = None
    workflow_id: int
    event: str
    check_suite_id: int | None = None
    head_sha: str
    head_branch: str | None = None
    status: str | None = None
    conclusion: str | None = None
    html_url: str | None = None
    created_at: datetime
    actor: UserAnswer | None = None
    triggering_actor: UserAnswer | None = None


class JobAnswer(ReadModel):
    """A job of GitHub Actions, with the labels of its runner; its number is its check run's."""

    run_id: int
    name: str
    labels: list[str] = Field(default_factory=list)


class StatusAnswer(ReadModel):
    """A commit status in the combined status."""

    id: int
    context: str
    state: str
    target_url: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    avatar_url: str | None = None
    """The picture of who set it; that of an App is filed under the App's number."""


class IssueAnswer(ReadModel):
    """An issue in a list; pull requests are those that have `pull_request`."""

    number: int
    pull_request: dict[str, Any] | None = None


class DeliveryAnswer(ReadModel):
    """`GET /app/hook/deliveries`. `guid` stays the same when a delivery is sent again, `id` does not."""

    id: int
    guid: str
    delivered_at: datetime
    redelivery: bool = False
    status: str
    status_code: int = 0
    event: str
    action: str | None = None


class DeliveryAddressAnswer(ReadModel):
    """`GET /app/hook/deliveries/{delivery_id}`, of which only the address matters; the schema does not promise it."""

    url: str | None = None


class EventAnswer(ReadModel):
    """An event of an issue's history."""

    event: str
    created_at: datetime
    label: LabelAnswer | None = None
    actor: UserAnswer | None = None


class ActivityAnswer(ReadModel):
    """A move of a branch, with the instant at which GitHub took it. Where there was or is no branch, zeros stand."""

    ref: str
    before: str
    after: str
    timestamp: datetime
    actor: UserAnswer | None = None


class CommentAnswer(ReadModel):
    id: int
    body: str | None = None
    user: UserAnswer | None = None
    performed_via_github_app: IdAnswer | None = None
    issue_url: str = ""
    updated_at: datetime | None = None


class PermissionAnswer(ReadModel):
    """A person's permission. `permission` knows no triage and no maintain; `role_name` may be an organisation's own."""

    permission: str
    role_name: str | None = None


class _AccountAnswer(ReadModel):
    login: str = ""


class AppAnswer(ReadModel):
    """`GET /app`."""

    slug: str
    id: int = 0
    client_id: str = ""
    html_url: str = ""
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()
    created_at: datetime | None = None


class InstallationAnswer(ReadModel):
    id: int
    account: _AccountAnswer | None = None
    html_url: str = ""
    suspended_at: datetime | None = None
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        return "" if self.account is None else self.account.login


class WebhookAnswer(ReadModel):
    """`GET /app/hook/config`. GitHub masks the secret, and leaves it out if there is none.

    By its schema `insecure_ssl` may be a number.
    """

    url: str = ""
    content_type: str = "json"
    insecure_ssl: str | float = "0"
    secret: str | None = None


class TokenAnswer(ReadModel):
    """`POST /app/installations/{installation_id}/access_tokens`."""

    token: SecretStr
    expires_at: datetime
    permissions: dict[str, str] = Field(default_factory=dict)
