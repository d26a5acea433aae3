"""The query of a snapshot, and the schema of its answer.

Names and types are those of GitHub's public schema, which a test holds. A bot's login comes without `[bot]`
(policy-bot's `GetV3Login`).
"""

from collections.abc import Mapping
from datetime import datetime
from functools import partial
from typing import Annotated, Any, TypeVar

from pydantic import BeforeValidator, ConfigDict, Field
from pydantic.alias_generators import to_camel

from queue_engine.core.read_model import ReadModel


class Part(ReadModel):
    model_config = ConfigDict(alias_generator=to_camel, validate_by_name=True)


def _listed(key: str, value: Any) -> tuple[Any, ...]:
    """Return what a connection lists under this key; GitHub writes null for what it does not show."""
    if value is None:
        return ()
    if not isinstance(value, Mapping):
        raise ValueError("a connection is an object")
    return tuple(each for each in value.get(key) or () if each is not None)


T = TypeVar("T")
Listed = Annotated[tuple[T, ...], BeforeValidator(partial(_listed, "nodes"))]
"""The nodes of a connection, on one page."""
Edges = Annotated[tuple[T, ...], BeforeValidator(partial(_listed, "edges"))]
"""The edges of a connection, on one page."""


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


class BaseRef(Part):
    """The base branch."""

    compare: Compared | None = None
    associated_pull_requests: Listed[MemberPart] = ()


class ChecksPart(Part):
    """All check runs and statuses of a commit in one word."""

    state: str


class CommitPart(Part):
    """The head's commit."""

    oid: str
    tree: Oid
    parents: Listed[Oid]
    status_check_rollup: ChecksPart | None = None


class PullCommit(Part):
    commit: CommitPart


class ReviewActorPart(Part):
    """`User` or `Team`: GitHub shows an App a team only with `members: read` (Kodiak #146)."""

    login: str | None = None
    combined_slug: str | None = None


class ReviewRequestPart(Part):
    """`ReviewRequest`; `asCodeOwner` says that CODEOWNERS made GitHub request it (its reference, Asana/SGTM #227)."""

    as_code_owner: bool = False
    requested_reviewer: ReviewActorPart | None = None


class Opinion(Part):
    """A person's newest review that is more than a comment."""

    state: str
    author: ActorPart | None = None


class Thread(Part):
    """A conversation. Webhooks name its id `node_id`."""

    id: str
    is_resolved: bool


class PageInfo(Part):
    """Whether there are more, and from where on."""

    has_next_page: bool = False
    end_cursor: str | None = None


class Threads(Part):
    nodes: tuple[Thread | None, ...] | None = None
    page_info: PageInfo


class StackPart(Part):
    """The stack that a pull request belongs to, by the branch on which it lands."""

    base_ref_name: str


class MergeRequestPart(Part):
    """A person's request that GitHub merge the pull request by itself."""

    merge_method: str


class BaseEventPart(Part):
    """A change of the base branch, by a person or by GitHub, or a forced push to it."""

    created_at: datetime


class PullPart(Part):
    """`PullRequest`."""

    id: str = ""
    auto_merge_request: MergeRequestPart | None = None
    number: int
    title: str
    body: str = ""
    url: str = ""
    state: str
    is_draft: bool
    updated_at: datetime
    author: ActorPart | None = None
    assignees: Listed[ActorPart]
    labels: Listed[Named] = ()
    """GitHub allows a hundred on a pull request."""
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
    commits: Listed[PullCommit] = ()
    """The last commit alone: `last: 1` is the newest (node-core-utils #477)."""
    review_decision: str | None = None
    latest_opinionated_reviews: Listed[Opinion] | None = None
    """Of people who may write."""
    review_requests: Listed[ReviewRequestPart] = ()
    review_threads: Threads | None = None
    timeline_items: Listed[BaseEventPart] = ()


class RepositoryPart(Part):
    """`Repository`, with its pull request. GitHub follows renames, and returns the current name."""

    name_with_owner: str = ""
    merge_commit_allowed: bool
    squash_merge_allowed: bool
    rebase_merge_allowed: bool
    default_branch_ref: Named | None = None
    collaborators: Edges[Edge] = ()
    """Those that match the filter: one, or none."""
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


class OwnRunPart(Part):
    """`CheckRun`. `databaseId` is an `Int`, which is too short for some numbers."""

    database_id: int | None = None
    status: str
    conclusion: str | None = None
    title: str | None = None


class OwnSuitePart(Part):
    """`CheckSuite`, of IMQ's App."""

    check_runs: Listed[OwnRunPart] = ()


class OwnChecksPart(Part):
    """The check suites of a commit; None where GitHub does not show them."""

    check_suites: Listed[OwnSuitePart] | None = None


_REPOSITORY = """
    nameWithOwner mergeCommitAllowed squashMergeAllowed rebaseMergeAllowed
    defaultBranchRef { name }
"""
_PULL_REQUEST = """
      id number title body state isDraft updatedAt totalCommentsCount url
      autoMergeRequest { mergeMethod }
      author { __typename login }
      assignees(first: 20) { nodes { login } }
      labels(first: 100) { nodes { name } }
      headRefOid headRefName headRepository { nameWithOwner owner { __typename } } baseRefName
      baseRef {
        compare(headRef: $head) @include(if: $compared) {
          aheadBy behindBy baseTarget { oid } headTarget { oid }
        }
        associatedPullRequests(first: 5, states: [OPEN]) {
          nodes { number baseRefName baseRepository { nameWithOwner } }
        }
      }
      mergeable canBeRebased mergeStateStatus maintainerCanModify mergeCommit { oid }
      commits(last: 1) {
        nodes { commit { oid tree { oid } parents(first: 10) { nodes { oid } } statusCheckRollup { state } } } }
      reviewDecision
      latestOpinionatedReviews(first: 100, writersOnly: true) { nodes { state author { __typename login } } }
      reviewRequests(first: 20) {
        nodes { asCodeOwner requestedReviewer { ... on User { login } ... on Team { combinedSlug } } }
      }
      reviewThreads(first: 100) { nodes { id isResolved } pageInfo { hasNextPage endCursor } }
      timelineItems(
        last: 1
        itemTypes: [AUTOMATIC_BASE_CHANGE_SUCCEEDED_EVENT, BASE_REF_CHANGED_EVENT, BASE_REF_FORCE_PUSHED_EVENT]
      ) {
        nodes {
          ... on AutomaticBaseChangeSucceededEvent { createdAt }
          ... on BaseRefChangedEvent { createdAt }
          ... on BaseRefForcePushedEvent { createdAt }
        }
      }
"""
_COLLABORATORS = """
    collaborators(login: $login, first: 1) @include(if: $person) { edges { permission node { login databaseId } } }
"""
PULL_REQUEST = f"""
query PullRequest(
  $owner: String!, $name: String!, $number: Int!
  $login: String!, $person: Boolean!, $head: String!, $compared: Boolean!
) {{
  repository(owner: $owner, name: $name) {{
    {_REPOSITORY.strip()}
    {_COLLABORATORS.strip()}
    pullRequest(number: $number) {{
      {_PULL_REQUEST.strip()}
    }}
  }}
}}
"""
THREADS = """
query ReviewThreads($owner: String!, $name: String!, $number: Int!, $after: String) {
  repository(owner: $owner, name: $name) {
    pullRequest(number: $number) {
      reviewThreads(first: 100, after: $after) { nodes { id isResolved } pageInfo { hasNextPage endCursor } }
    }
  }
}
"""


def with_stacks(query: str) -> str:
    """Return a query with the stacks of pull requests, for a GitHub whose schema has them (gh-stack, "GraphQL API")."""
    return query.replace("reviewDecision\n", "reviewDecision stack { baseRefName }\n")


def of_several(pulls: int, logins: int) -> str:
    """Return the query of so many pull requests, `pull_0` and so on, and of so many people's permissions.

    Its variables are `number_0`, `head_0` and `login_0`, and so on.
    """
    variables = [f"$number_{each}: Int!, $head_{each}: String!" for each in range(pulls)]
    variables += [f"$login_{each}: String!" for each in range(logins)]
    fields = [
        f"collaborators_{each}: collaborators(login: $login_{each}, first: 1) {{"
        " edges { permission node { login databaseId } } }"
        for each in range(logins)
    ]
    compared = _PULL_REQUEST.strip().replace(" @include(if: $compared)", "")
    fields += [
        f"pull_{each}: pullRequest(number: $number_{each}) {{\n{compared.replace('$head', f'$head_{each}')}\n}}"
        for each in range(pulls)
    ]
    return f"""
query PullRequests($owner: String!, $name: String!, {", ".join(variables)}) {{
  repository(owner: $owner, name: $name) {{
    {_REPOSITORY.strip()}
    {" ".join(fields)}
  }}
}}
"""


def own_check_runs(heads: int) -> str:
    """Return the query of IMQ's check runs on so many commits, `head_0` and so on, which are its variables as well.

    `filterBy: {appId}` as int128/wait-for-workflows-action asks, with `object(oid:)`; an App has one suite on a commit.
    """
    variables = " ".join(f"$head_{each}: GitObjectID!" for each in range(heads))
    commits = "\n".join(f"head_{each}: object(oid: $head_{each}) {{ ...Own }}" for each in range(heads))
    return f"""
query OwnCheckRuns($owner: String!, $name: String!, $app: Int!, $check: String!, {variables}) {{
  repository(owner: $owner, name: $name) {{
    {commits}
  }}
}}
fragment Own on Commit {{
  checkSuites(first: 3, filterBy: {{appId: $app}}) {{
    nodes {{
      checkRuns(first: 50, filterBy: {{checkName: $check, checkType: ALL}}) {{
        nodes {{ databaseId status conclusion title }}
      }}
    }}
  }}
}}
"""
