"""The schema of the answer to the query of a snapshot.

Names and types are those of GitHub's public schema, which a test holds. A
bot's login comes without `[bot]` (policy-bot's `GetV3Login`).
"""

from datetime import datetime

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


class _Part(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class ReviewActorPart(_Part):
    """`User` or `Team`: GitHub shows an App a team only with `members: read` (Kodiak #146)."""

    login: str | None = None
    combined_slug: str | None = None


class ReviewRequestPart(_Part):
    """`ReviewRequest`; `asCodeOwner` says that CODEOWNERS made GitHub request it (its reference, Asana/SGTM #227)."""

    as_code_owner: bool = False
    requested_reviewer: ReviewActorPart | None = None


class ReviewRequests(_Part):
    """`ReviewRequestConnection`."""

    nodes: list[ReviewRequestPart | None] | None = None


def code_owners(requests: ReviewRequests | None) -> tuple[str, ...]:
    """Name the code owners whose review GitHub requests, as far as it shows them: people, and teams as `owner/slug`."""
    nodes = (requests.nodes if requests else None) or ()
    reviewers = (each.requested_reviewer for each in nodes if each is not None and each.as_code_owner)
    return tuple(name for each in reviewers if each is not None and (name := each.login or each.combined_slug))


class Part(BaseModel):
    """A part of an answer."""

    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


class Oid(Part):
    """A git object by its SHA."""

    oid: str


class Named(Part):
    """A label, or a branch."""

    name: str


class ActorPart(Part):
    """A person or a bot."""

    kind: str = Field(default="User", alias="__typename")
    login: str
    database_id: int | None = None

    @property
    def rest_login(self) -> str:
        """Return the login as in REST and webhooks."""
        bare = self.kind != "Bot" or self.login.endswith("[bot]")
        return self.login if bare else f"{self.login}[bot]"


class Kind(Part):
    """An account, by its kind alone."""

    kind: str = Field(default="User", alias="__typename")


class RepositoryName(Part):
    """A repository's name, and who owns it."""

    name_with_owner: str
    owner: Kind | None = None


class Edge(Part):
    """A person's permission."""

    permission: str
    node: ActorPart


class Collaborators(Part):
    """The collaborators that match the filter: one, or none."""

    edges: list[Edge | None] | None = None


class Actors(Part):
    """People, on one page."""

    nodes: list[ActorPart | None] | None = None


class Labels(Part):
    """Labels, on one page: GitHub allows a hundred on a pull request."""

    nodes: list[Named | None] | None = None


class Compared(Part):
    """The head against the base's tip."""

    ahead_by: int | None = None
    behind_by: int
    base_target: Oid
    head_target: Oid


class MemberPart(Part):
    """A pull request with the base branch as its head."""

    number: int
    base_ref_name: str
    base_repository: RepositoryName | None = None

    def is_in(self, repository: str) -> bool:
        """Whether it is a pull request of this repository, and not of one that this is a fork of."""
        return self.base_repository is not None and self.base_repository.name_with_owner == repository


class Members(Part):
    """The open ones of them, on one page."""

    nodes: list[MemberPart | None] | None = None


class BaseRef(Part):
    """The base branch."""

    compare: Compared | None = None
    associated_pull_requests: Members | None = None


class Parents(Part):
    """A commit's parents, in order."""

    nodes: list[Oid | None] | None = None


class ChecksPart(Part):
    """All check runs and statuses of a commit in one word."""

    state: str


class CommitPart(Part):
    """The head's commit."""

    oid: str
    tree: Oid
    parents: Parents
    status_check_rollup: ChecksPart | None = None


def is_failing(head: CommitPart | None) -> bool | None:
    """Whether any check of the head has failed, required or not; None where GitHub does not say."""
    checks = None if head is None else head.status_check_rollup
    return None if checks is None else checks.state in {"FAILURE", "ERROR"}


class PullCommit(Part):
    """A commit of the pull request."""

    commit: CommitPart


class Commits(Part):
    """The last commit alone: `last: 1` is the newest (node-core-utils #477)."""

    nodes: list[PullCommit | None] | None = None


class Opinion(Part):
    """A person's newest review that is more than a comment."""

    state: str
    author: ActorPart | None = None


class Opinions(Part):
    """Of people who may write, on one page."""

    nodes: list[Opinion | None] | None = None


class Thread(Part):
    """A conversation. Webhooks name its id `node_id`."""

    id: str
    is_resolved: bool


class PageInfo(Part):
    """Whether there are more, and from where on."""

    has_next_page: bool = False
    end_cursor: str | None = None


class Threads(Part):
    """A page of conversations."""

    nodes: list[Thread | None] | None = None
    page_info: PageInfo


class StackPart(Part):
    """The stack that a pull request belongs to, by the branch on which it lands."""

    base_ref_name: str


class MergeRequestPart(Part):
    """A person's request that GitHub merge the pull request by itself."""

    merge_method: str


class PullPart(Part):
    """`PullRequest`."""

    id: str = ""
    auto_merge_request: MergeRequestPart | None = None
    number: int
    title: str
    body: str = ""
    state: str
    is_draft: bool
    updated_at: datetime
    author: ActorPart | None = None
    assignees: Actors
    labels: Labels | None = None
    head_ref_oid: str
    head_ref_name: str
    head_repository: RepositoryName | None = None
    base_ref_name: str
    base_ref: BaseRef | None = None
    mergeable: str
    can_be_rebased: bool | None = None
    merge_state_status: str
    maintainer_can_modify: bool
    stack: StackPart | None = None
    total_comments_count: int | None = None
    merge_commit: Oid | None = None
    commits: Commits | None = None
    review_decision: str | None = None
    latest_opinionated_reviews: Opinions | None = None
    review_requests: ReviewRequests | None = None
    review_threads: Threads | None = None


class RepositoryPart(Part):
    """`Repository`, with its pull request. GitHub follows renames, and returns the current name."""

    name_with_owner: str = ""
    merge_commit_allowed: bool
    squash_merge_allowed: bool
    rebase_merge_allowed: bool
    default_branch_ref: Named | None = None
    collaborators: Collaborators | None = None
    pull_request: PullPart


class Answer(Part):
    """The data of the query of one pull request."""

    repository: RepositoryPart


class ThreadsOfPull(Part):
    """The conversations of a pull request alone."""

    review_threads: Threads


class ThreadsOfRepository(Part):
    """The same, within its repository."""

    pull_request: ThreadsOfPull


class ThreadsAnswer(Part):
    """The data of `THREADS`."""

    repository: ThreadsOfRepository
