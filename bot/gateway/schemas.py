"""Schemas of GitHub's answers, with the fields that IMQ reads. Others are ignored; optional ones have defaults."""

from datetime import datetime
from typing import Any

from pydantic import BaseModel, Field, SecretStr


class UserAnswer(BaseModel):
    """A person, a bot or an organisation."""

    login: str
    type: str = "User"


class CommitUserAnswer(BaseModel):
    """The account of a commit's author or committer.

    An unknown one is null or an empty object (schema `commit`; danger/kotlin #249, octocrab #677).
    """

    login: str = ""


class LabelAnswer(BaseModel):
    """A label."""

    name: str


class IdAnswer(BaseModel):
    """Anything of which only the id matters: an App, or something just created."""

    id: int


class RepositoryAnswer(BaseModel):
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


class SideAnswer(BaseModel):
    """The head or the base of a pull request; `repo` is None when the fork was deleted."""

    sha: str
    ref: str
    repo: RepositoryAnswer | None = None


class PullRequestAnswer(BaseModel):
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
    auto_merge: dict[str, Any] | None = None
    stack: dict[str, Any] | None = None
    """Absent or null outside of a stack; `base` names the branch on which the stack lands (gh-stack, "REST API")."""
    comments: int = 0
    updated_at: datetime | None = None
    merged_at: datetime | None = None
    merged_by: UserAnswer | None = None


class NumberAnswer(BaseModel):
    """A pull request of which only the number matters."""

    number: int


class ReviewAnswer(BaseModel):
    """A review. `author_association` says whether its author may write: OWNER, MEMBER, COLLABORATOR, or less."""

    user: UserAnswer | None = None
    state: str
    author_association: str = "NONE"
    submitted_at: datetime | None = None
    commit_id: str | None = None


class PersonAnswer(BaseModel):
    """Who wrote a commit, as git has it. The schema promises no part (`git-user`)."""

    name: str = ""
    email: str = ""


class VerificationAnswer(BaseModel):
    """What GitHub says of a commit's signature; `reason` is valid, unsigned, bad_email, gpgverify_error..."""

    verified: bool
    reason: str = ""


class AuthoredAnswer(BaseModel):
    """The git part of a pull request's commit. Without `verification` GitHub says nothing of its signature."""

    author: PersonAnswer | None = None
    message: str = ""
    verification: VerificationAnswer | None = None


class ListedPullCommitAnswer(BaseModel):
    """A commit of a pull request. `author` is the account whose address it carries, if it is one's."""

    sha: str = ""
    commit: AuthoredAnswer
    author: CommitUserAnswer | None = None
    parents: list["ShaAnswer"] = Field(default_factory=list)


class ContentAnswer(BaseModel):
    """A file's content; `encoding` is none for what is larger than a megabyte."""

    type: str
    encoding: str = "none"
    content: str = ""


class ShaAnswer(BaseModel):
    """A git object by its name."""

    sha: str


class RefAnswer(BaseModel):
    """A branch by its full name, with what it points at."""

    ref: str
    object: ShaAnswer


class CommitAnswer(BaseModel):
    """`GET /repos/{owner}/{repo}/git/commits/{commit_sha}`."""

    sha: str
    tree: ShaAnswer
    parents: list[ShaAnswer]
    message: str = ""


class InnerCommitAnswer(BaseModel):
    """The git part of a listed commit. Without `verification` GitHub says nothing of its signature."""

    tree: ShaAnswer
    verification: VerificationAnswer | None = None


class ListedCommitAnswer(BaseModel):
    """A commit where GitHub lists it. `author` and `committer` are the accounts whose addresses it carries."""

    sha: str
    commit: InnerCommitAnswer
    parents: list[ShaAnswer]
    author: CommitUserAnswer | None = None
    committer: CommitUserAnswer | None = None


class ComparisonAnswer(BaseModel):
    """`GET /repos/{owner}/{repo}/compare/{basehead}`: commits in chronological order, at most 250 of them."""

    base_commit: ListedCommitAnswer
    merge_base_commit: ListedCommitAnswer
    behind_by: int
    commits: list[ListedCommitAnswer]


class ReporterAnswer(BaseModel):
    """The App that reports. No two Apps have one slug; that of GitHub Actions is `github-actions` everywhere."""

    id: int
    slug: str = ""
    name: str = ""


class CheckRunAnswer(BaseModel):
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


class AnnotationAnswer(BaseModel):
    """An annotation of a check run."""

    message: str | None = None


class GroupMemberAnswer(BaseModel):
    """A workflow run that holds a concurrency group, or waits for it."""

    run_name: str
    run_html_url: str | None = None


class ConcurrencyGroupAnswer(BaseModel):
    """A concurrency group with its runs under way."""

    group_members: list[GroupMemberAnswer]


class CheckSuiteAnswer(BaseModel):
    """A check suite; `latest_check_runs_count` counts the newest run of each of its checks."""

    id: int
    app: ReporterAnswer | None = None
    status: str | None = None
    conclusion: str | None = None
    latest_check_runs_count: int = 0
    created_at: datetime | None = None


class WorkflowRunAnswer(BaseModel):
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


class StatusAnswer(BaseModel):
    """A commit status in the combined status."""

    id: int
    context: str
    state: str
    target_url: str | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    avatar_url: str | None = None
    """The picture of who set it; that of an App is filed under the App's number."""


class IssueAnswer(BaseModel):
    """An issue in a list; pull requests are those that have `pull_request`."""

    number: int
    pull_request: dict[str, Any] | None = None


class DeliveryAnswer(BaseModel):
    """`GET /app/hook/deliveries`. `guid` stays the same when a delivery is sent again, `id` does not."""

    id: int
    guid: str
    delivered_at: datetime
    redelivery: bool = False
    status: str
    status_code: int = 0
    event: str
    action: str | None = None


class DeliveryAddressAnswer(BaseModel):
    """`GET /app/hook/deliveries/{delivery_id}`, of which only the address matters; the schema does not promise it."""

    url: str | None = None


class EventAnswer(BaseModel):
    """An event of an issue's history."""

    event: str
    created_at: datetime
    label: LabelAnswer | None = None
    actor: UserAnswer | None = None


class ActivityAnswer(BaseModel):
    """A move of a branch, with the instant at which GitHub took it. Where there was or is no branch, zeros stand."""

    ref: str
    before: str
    after: str
    timestamp: datetime
    actor: UserAnswer | None = None


class CommentAnswer(BaseModel):
    """A comment on a pull request."""

    id: int
    body: str | None = None
    user: UserAnswer | None = None
    performed_via_github_app: IdAnswer | None = None
    issue_url: str = ""
    updated_at: datetime | None = None


class PermissionAnswer(BaseModel):
    """A person's permission. `permission` knows no triage and no maintain; `role_name` may be an organisation's own."""

    permission: str
    role_name: str | None = None


class _AccountAnswer(BaseModel):
    """An account in such an answer."""

    login: str = ""


class AppAnswer(BaseModel):
    """`GET /app`."""

    slug: str
    id: int = 0
    client_id: str = ""
    html_url: str = ""
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()
    created_at: datetime | None = None


class InstallationAnswer(BaseModel):
    """An installation of the App."""

    id: int
    account: _AccountAnswer | None = None
    html_url: str = ""
    suspended_at: datetime | None = None
    permissions: dict[str, str] = Field(default_factory=dict)
    events: tuple[str, ...] = ()

    @property
    def owner(self) -> str:
        """Return the account on which the App is installed."""
        return "" if self.account is None else self.account.login


class WebhookAnswer(BaseModel):
    """`GET /app/hook/config`. GitHub masks the secret, and leaves it out if there is none.

    By its schema `insecure_ssl` may be a number.
    """

    url: str = ""
    content_type: str = "json"
    insecure_ssl: str | float = "0"
    secret: str | None = None


class TokenAnswer(BaseModel):
    """`POST /app/installations/{installation_id}/access_tokens`."""

    token: SecretStr
    expires_at: datetime
    permissions: dict[str, str] = Field(default_factory=dict)


class FilePart(BaseModel):
    """`Blob`; other objects, such as directories, have none of its fields."""

    text: str | None = None
    is_binary: bool | None = Field(default=None, alias="isBinary")
    is_truncated: bool | None = Field(default=None, alias="isTruncated")

    @property
    def complete_text(self) -> str:
        """The text; empty where GitHub shows no complete one."""
        return "" if self.is_truncated or self.is_binary else self.text or ""


class CommitPart(BaseModel):
    """A git object."""

    oid: str


class ConfigPart(BaseModel):
    """`Repository` with its configuration; `file` is null if there is none."""

    number: int = Field(alias="databaseId")
    commit: CommitPart | None
    file: FilePart | None

    @property
    def is_certain(self) -> bool:
        """Whether there is no file, or its text is shown: that of a link is its target, in one line without an end."""
        return self.commit is not None and (self.file is None or "\n" in self.text)

    @property
    def text(self) -> str:
        """The file's text; empty where GitHub shows no complete one."""
        return "" if self.file is None else self.file.complete_text
