"""The three ports to GitHub: reads, writes, comments. The gateway in `bot` answers them over HTTP.

Every method raises the errors of `queue_engine.domain.errors` and no others, and has its time limit in the gateway.
Methods that write may have happened although they raised `Unavailable`. Type checkers take a subclass of `Forwarding`
for abstract, which has every method only at runtime.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Protocol

from queue_engine.domain.facts import (
    Branch,
    BranchRules,
    CheckReport,
    CheckSuite,
    Commit,
    CommitHistory,
    Comparison,
    Delivery,
    HeadPush,
    HistoryEvent,
    JobLabels,
    LabelEvent,
    MergeCommit,
    MergeMethod,
    OwnCheckRun,
    OwnComments,
    Permission,
    PullRequest,
    RepositoryState,
    RequiredCheck,
    Review,
    Snapshot,
    StackMember,
    WorkflowRun,
)
from queue_engine.domain.model import Repository

PAGE = 100
"""The most that GitHub lists in one answer."""

NO_BRANCH = "0" * 40
"""GitHub's name for the tip of a branch that does not exist."""


NOTES = "refs/notes/imq"
"""The ref of the notes of landings."""

MARKS, MARK_BRANCHES = "refs/imq/tested/", "refs/heads/imq-tested/"
"""How the refs of tested trees begin; the branches are for a GitHub that takes no other refs. Mark and tree follow."""


@dataclass(frozen=True, slots=True)
class BranchUpdate:
    """A move of one branch: `before` is the expected tip, None for any; `after` None deletes the branch.

    With `NO_BRANCH` as `before` the branch must not exist. A name that begins with `refs/` is that of any ref.
    """

    branch: str
    before: str | None
    after: str | None
    force: bool = False


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A pull request to read, with a person's permission ("" for none) and a comparison of the expected head."""

    number: int
    login: str
    head_sha: str


class MergeState(StrEnum):
    """How far a merge in the background is, by GitHub's own words ("Merge API" of gh-stack)."""

    PENDING = "pending"
    MERGED = "merged"
    ENQUEUED = "enqueued"
    """GitHub's own merge queue has taken it over."""
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class PendingMerge:
    """A merge in the background, as GitHub's last answer shows it."""

    state: MergeState
    message: str = ""
    """GitHub's sentence; of a failed merge, why it failed."""
    uuid: str | None = None
    sha: str | None = None


class Files(Protocol):
    """Text files at a commit: GitHub's, or those of a clone."""

    async def workflow_files(self, repository: Repository, commit: str) -> Mapping[str, str]:
        """The text of each file in `.github/workflows` at a commit, by its path, in one query of GraphQL.

        Empty where GitHub shows no complete text. Raises NotFound for a missing commit, Forbidden without GraphQL.
        """

    async def texts(self, repository: Repository, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
        """The text of those of these files that a commit has, by their paths, in one query of GraphQL.

        Empty where GitHub shows no complete text. Raises Forbidden without GraphQL.
        """

    async def paths(self, repository: Repository, commit: str) -> Sequence[str] | None:
        """`GET /repos/{o}/{r}/git/trees/{sha}`: the paths of all files of a commit; None where GitHub cuts them off.

        Without empty files. GitHub lists 100,000 entries (docs: "Get a tree").
        """


class Reads(Files, Protocol):
    """What IMQ reads, and the caches of it."""

    async def pull_request(self, repository: Repository, number: int) -> PullRequest:
        """`GET /repos/{o}/{r}/pulls/{n}`. Asking also makes GitHub compute `mergeable`."""

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """Read a pull request, its base and reviews, and the permission of `login`, in one query of GraphQL.

        With `head_sha`, the expected head, GitHub compares it with the base too. Missing fields are None.
        """

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        """Read the snapshots of several pull requests in few queries of GraphQL, by their numbers.

        Those that GitHub does not show so are missing: `snapshot` reads them, and raises their errors.
        """

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        """`GET /repos/{o}/{r}/compare/{base}...{head}`: base tip, merge base, and the head commit, in one request."""

    async def changed_paths(self, repository: Repository, base: str, before: str, after: str) -> frozenset[str] | None:
        """`GET /repos/{o}/{r}/compare/{before}...{after}`: former and new paths of the files that changed on a base.

        None if GitHub does not list all, or `after` does not contain `before`.
        """

    async def paths_of_head(self, repository: Repository, base: str, tip: str, head_sha: str) -> frozenset[str] | None:
        """`GET /repos/{o}/{r}/compare/{tip}...{head}`: former and new paths of the files that a pull request changes.

        These count from the commit at which it left the base. None if GitHub does not list all.
        """

    async def differing_paths(self, repository: Repository, tree: str, landed: Commit) -> frozenset[str] | None:
        """`GET /repos/{o}/{r}/git/trees/{sha}` of both trees: the files in which they differ.

        None if GitHub does not list all.
        """

    async def commit(self, repository: Repository, sha: str) -> Commit:
        """`GET /repos/{o}/{r}/git/commits/{sha}`."""

    async def permission(self, repository: Repository, login: str) -> Permission:
        """`GET /repos/{o}/{r}/collaborators/{u}/permission`, never cached. An unknown person has none."""

    async def login_of(self, repository: Repository, person_id: int) -> str | None:
        """`GET /user/{account_id}`: the present login of an account; None if the account was deleted."""

    async def branch_rules(self, repository: Repository, base_branch: str, *, kept: bool = False) -> BranchRules:
        """Classic protection (branch object) and rulesets together; cached for two hours.

        `forget_rules` drops the cache. Soon after a change only `kept` takes what was read seconds ago, for those who
        land nothing. Raises NotFound when the branch does not exist.
        """

    def cached_rules(self, repository: Repository, base_branch: str) -> BranchRules | None:
        """Return the cached rules; None if `branch_rules` would read them."""

    async def is_guarded(self, repository: Repository, branch: str, default_branch: str) -> bool:
        """Whether rulesets keep others from pushing to this branch, while IMQ may bypass them; cached like rules.

        `default_branch` is that of the repository; "" if it is not known.
        """

    def forget_token(self, installation_id: int) -> None:
        """Drop the installation's cached token after a change of permissions: a token keeps those of its creation."""

    def forget_rules(self, repository_id: int) -> None:
        """Drop the cached rules of this repository, after a webhook about a change."""

    def expire_rules(self, repository_id: int) -> None:
        """Drop the cached rules of this repository some seconds after they were read; at once if that is past."""

    async def check_reports(
        self, repository: Repository, sha: str, required: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """All pages of check runs and the combined status of a commit; newest per app and name; never IMQ's own.

        Of jobs of one name in several workflow runs, the newest per workflow and event counts. The gateway reads
        `workflow_runs` for that where one of these jobs failed.

        The gateway reads no statuses when every `required` check is bound to an App and has a run of it: no status can
        change the verdict then.
        """

    async def workflow_runs(self, repository: Repository, sha: str) -> tuple[WorkflowRun, ...]:
        """`GET .../actions/runs?head_sha=`: also runs that await approval; none where IMQ may not read them."""

    async def job_labels(self, repository: Repository, reports: Sequence[CheckReport]) -> JobLabels:
        """The labels of the runners of these jobs, as far as GitHub shows them.

        `GET .../actions/jobs/{id}`, and for several `GET .../actions/runs/{id}/jobs`: for each workflow run with jobs
        whose labels IMQ did not read on this day. `GET /repositories/{id}` once a day.
        """

    async def cancelled_for(self, repository: Repository, check_run: int) -> tuple[str, ...]:
        """The concurrency group for whose newer run GitHub cancelled this job, then the runs of that group under way.

        `GET .../check-runs/{id}/annotations`, then `GET .../actions/concurrency_groups/{name}`. Empty where GitHub
        names no group, as after a person's cancellation.
        """

    async def not_started(self, repository: Repository, check_run: int) -> str | None:
        """GitHub's message if it did not start this job (`GET .../check-runs/{id}/annotations`); None if it did."""

    async def failed_tests(self, repository: Repository, check_runs: Sequence[int]) -> tuple[str, ...]:
        """The tests that failed in these jobs, as annotations or JUnit reports in artifacts of their run name them.

        `GET .../check-runs/{id}/annotations` of each; then of the first one's run up to three artifacts, whose archives
        are read within limits of size, ratio and count. None where nothing names any, or IMQ may not read it.
        """

    async def check_suites(self, repository: Repository, sha: str) -> tuple[CheckSuite, ...]:
        """`GET /repos/{o}/{r}/commits/{ref}/check-suites`: the suites of all Apps on a commit."""

    async def reports_elsewhere(
        self, repository: Repository, base_branch: str | None, head_sha: str, wanted: Collection[RequiredCheck]
    ) -> tuple[CheckReport, ...]:
        """The checks of the pull requests that changed last, by `GET /pulls`, and of the base's tip; not of `head_sha`.

        Without a base branch, those of pull requests alone.
        Reads one commit after the other until every wanted check is found, eleven at most.
        """

    async def configuration(self, repository: Repository, base_branch: str | None) -> str | None:
        """The text of `.github/imq.yml` at the tip of this branch, or of the repository's default branch.

        `base_branch` may also be a commit. None if there is no such file. Raises NotFound for a branch or commit that
        does not exist, and Invalid when the path is no file, or the file no text.
        """

    async def configurations(
        self, repositories: Sequence[Repository], tips: Mapping[int, str] = MappingProxyType({})
    ) -> Mapping[int, str | None]:
        """What `configuration` returns for the default branches of these repositories of one installation, by id.

        `tips` are commits to read at. A repository is missing that GitHub does not show, and one whose file is to be
        read by itself.
        """

    async def organisation_configuration(self, repository: Repository, commit: str | None = None) -> str | None:
        """The text of `.github/imq.yml` in the owner's repository `.github`; None if IMQ can read no such file.

        At the tip of its default branch, or at this commit: raises NotFound if the commit does not exist.
        """

    async def organisation_configuration_is_reviewed(self, repository: Repository) -> bool:
        """Whether the rules require an approving review before the default branch of the owner's `.github` changes.

        False where IMQ cannot know: the repository has another owner by now, or IMQ may not read its rules.
        """

    async def reviews(self, repository: Repository, number: int) -> tuple[Review, ...]:
        """`GET /repos/{o}/{r}/pulls/{n}/reviews`, all pages, oldest first."""

    async def commit_texts(self, repository: Repository, number: int, *, author: str) -> CommitHistory:
        """`GET /repos/{o}/{r}/pulls/{n}/commits`: titles and authors, without the account `author`."""

    async def unsigned_commits(self, repository: Repository, number: int) -> tuple[str, ...]:
        """The same list: SHAs of the commits without a valid signature, by GitHub's verification, oldest first.

        Commits that GitHub could not verify just then, or without a verification, are not among them.
        """

    async def stack_members(self, repository: Repository, branch: str) -> tuple[StackMember, ...]:
        """`GET /repos/{o}/{r}/pulls` by head: the open pull requests whose head is this branch of the repository."""

    async def is_in_use(self, repository: Repository, branch: str) -> bool:
        """`GET /repos/{o}/{r}/pulls` by base, then by head: whether an open pull request needs this branch."""

    async def branch_tip(self, repository: Repository, branch: str) -> Branch | None:
        """`GET /repos/{o}/{r}/branches/{branch}`; None if there is no such branch."""

    async def ref_target(self, repository: Repository, ref: str) -> str | None:
        """`GET /repos/{o}/{r}/git/ref/{ref}`: the object that a ref such as `refs/notes/x` points at; None: no ref."""

    async def labeled_pull_requests(self, repository: Repository, label: str) -> tuple[int, ...]:
        """Numbers of the open pull requests with this label, oldest first (`GET /repos/{o}/{r}/issues`, all pages)."""

    async def latest_pull_requests(self, repository: Repository) -> tuple[PullRequest, ...]:
        """The hundred open pull requests that changed last (`GET /repos/{o}/{r}/pulls`), each without `mergeable`."""

    async def own_comments(self, repository: Repository, since: datetime) -> OwnComments:
        """IMQ's own comments that changed since, among the repository's last 300 comments.

        `GET /repos/{o}/{r}/issues/comments`, at most three requests.
        """

    async def own_check_runs(
        self, repository: Repository, heads: Collection[str]
    ) -> Mapping[str, tuple[OwnCheckRun, ...]]:
        """IMQ's own check runs on each of at most a hundred commits, in one request (GraphQL).

        A commit is missing if GitHub does not show its checks.
        """

    async def find_comments(self, repository: Repository, number: int) -> Mapping[int, str]:
        """As `Comments` says."""

    async def last_labeled_event(self, repository: Repository, number: int, label: str) -> LabelEvent | None:
        """Who set this label last (`GET /repos/{o}/{r}/issues/{n}/events`); None if the history has no such event."""

    async def history(self, repository: Repository, number: int) -> tuple[HistoryEvent, ...]:
        """The events of a pull request, oldest first (`GET /repos/{o}/{r}/issues/{n}/events`, all pages)."""

    async def has_label(self, repository: Repository, label: str) -> bool:
        """Whether the repository has a label of this name (`GET /repos/{o}/{r}/labels/{name}`)."""

    async def head_pushes(self, repository: Repository, pull: PullRequest) -> tuple[HeadPush, ...]:
        """`GET /repos/{o}/{r}/activity` of its head branch, newest first; empty where IMQ may not read it."""

    async def installations(self) -> tuple[int, ...]:
        """The installations that are not suspended (`GET /app/installations`)."""

    async def repositories(self, installation_id: int) -> tuple[Repository, ...]:
        """The repositories of an installation that are not archived (`GET /installation/repositories`)."""

    async def repository(self, repository: Repository) -> RepositoryState:
        """`GET /repositories/{id}`: the repository of this id, by its present name."""

    async def deliveries(self, cursor: str | None) -> tuple[tuple[Delivery, ...], str | None]:
        """A page of attempts to deliver webhooks, newest first, and the cursor of the next page if there is one.

        `GET /app/hook/deliveries`, without its filter by status, which is documented as 400 to 599: an attempt that
        never reached IMQ may have no such code.
        """

    async def own_login(self) -> str:
        """The login of the App, `slug[bot]`, from `GET /app`; read once."""

    async def candidate_branches(self, repository: Repository) -> Mapping[str, str]:
        """The branches that are named like those of candidates, with their tips (`GET /git/matching-refs/heads/imq`).

        Names prove nothing: `branch_pushes` says who made a branch.
        """

    async def branch_pushes(self, repository: Repository, branch: str) -> tuple[HeadPush, ...]:
        """`GET /repos/{o}/{r}/activity` of a branch, newest first; empty where IMQ may not read it."""

    async def refuses_outdated(self, repository: Repository, base_branch: str) -> bool:
        """Whether rules refuse IMQ's merge of a head without the base's tip; one request for each such ruleset."""

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """`GET /repos/{o}/{r}/pulls/{n}/merge-async/{uuid}`; GitHub keeps the result for a day, then NotFound."""


class Writes(Protocol):
    """What changes branches, pull requests and CI, and the reactions to commands."""

    async def prepare_writes(self, repository: Repository) -> None:
        """Get the token for writes to this repository in advance, so the next write need not wait. Never raises."""

    async def update_branch(self, repository: Repository, number: int, expected_head: str) -> None:
        """`PUT /repos/{o}/{r}/pulls/{n}/update-branch`; the new head appears later.

        Raises Invalid for a head that moved, nothing to update, or a conflict; Forbidden without access to a fork.
        """

    async def rerun(self, repository: Repository, actions_run: int) -> None:
        """`POST .../actions/runs/{id}/rerun-failed-jobs`: run the failed jobs of a workflow run again.

        IMQ can rerun nothing else: GitHub lets no App rerequest another App's check run.
        """

    async def cancel_run(self, repository: Repository, actions_run: int) -> None:
        """`POST .../actions/runs/{id}/cancel`. Raises HeadConflict (409) for a run that has ended."""

    async def delete_branch(self, repository: Repository, branch: str) -> None:
        """`DELETE /repos/{o}/{r}/git/refs/heads/{branch}`; a missing branch is no error."""

    async def delete_ref(self, repository: Repository, ref: str) -> None:
        """`DELETE /repos/{o}/{r}/git/{ref}`, of any ref such as `refs/notes/x`; a missing one is no error."""

    async def create_ref(self, repository: Repository, ref: str, sha: str) -> None:
        """`POST /repos/{o}/{r}/git/refs`, of any ref such as `refs/imq/x`.

        Raises HeadConflict if it is there, NotFound if GitHub lacks the object, and Invalid for any other refusal.
        """

    async def write_notes(self, repository: Repository, onto: Commit | None, notes: Mapping[str, str]) -> Commit:
        """Add git notes by their commits to `refs/notes/imq`, whose present commit is `onto`; returns the new one.

        `POST .../git/trees`, `POST .../git/commits`, `PATCH .../git/refs/notes/imq`: three requests for all notes.
        Raises HeadConflict if the ref is elsewhere.
        """

    async def react(self, repository: Repository, comment_id: int, content: str) -> None:
        """`POST /repos/{o}/{r}/issues/comments/{id}/reactions`; an existing reaction is no error."""

    async def create_label(self, repository: Repository, name: str, color: str, description: str) -> bool:
        """`POST /repos/{o}/{r}/labels`; False if the repository has a label of this name. Raises Forbidden."""

    async def disable_auto_merge(self, repository: Repository, node_id: str) -> bool:
        """Disable GitHub's auto-merge of a pull request (GraphQL); False if it was not enabled. Raises Forbidden."""

    async def revert_pull_request(
        self, repository: Repository, node_id: str, title: str, body: str
    ) -> tuple[int, str, Commit]:
        """GraphQL `revertPullRequest`: open a pull request that reverts a merged one.

        Returns its number, its branch and its commit, whose message is empty where the answer lacks it. Raises Invalid
        where GitHub cannot revert it, as by a conflict, and Forbidden without the permission.
        """

    async def redeliver(self, number: int) -> None:
        """Redeliver one webhook, as GitHub never does by itself (`POST /app/hook/deliveries/{id}/attempts`)."""

    async def create_branch(self, repository: Repository, branch: str, sha: str) -> None:
        """`POST /repos/{o}/{r}/git/refs`. Raises Invalid if the branch exists, or a rule forbids it."""

    async def merge_into(self, repository: Repository, branch: str, head_sha: str, message: str) -> Commit | None:
        """`POST /repos/{o}/{r}/merges`: merge a commit into a branch. None if the branch contains it (204).

        Raises HeadConflict for a conflict, NotFound for a missing commit or branch, Forbidden for a permission, and
        Invalid by rules.
        """

    async def create_commit(self, repository: Repository, tree: str, parents: Sequence[str], message: str) -> Commit:
        """`POST /repos/{o}/{r}/git/commits`, without author and committer, so that GitHub signs it."""

    async def update_refs(self, repository: Repository, updates: Sequence[BranchUpdate]) -> None:
        """GraphQL `updateRefs`: all moves or none. Raises HeadConflict if a tip is another, MergeError by a rule.

        GitHub gives both one type, and documents no words: after either error read the tips before deciding. Raises
        Forbidden for a permission, and where GitHub has no such mutation.
        """

    async def open_draft(self, repository: Repository, head: str, base: str, title: str, body: str) -> int:
        """`POST /repos/{o}/{r}/pulls` as a draft, or as no draft where the repository has none. Returns its number.

        Returns the number of the open one if this head has one already.
        """

    async def close_pull_request(self, repository: Repository, number: int) -> None:
        """`PATCH /repos/{o}/{r}/pulls/{n}`; a closed one is no error."""

    async def dispatch_workflow(
        self, repository: Repository, path: str, branch: str, inputs: Mapping[str, str]
    ) -> None:
        """`POST /repos/{o}/{r}/actions/workflows/{file}/dispatches`. Raises Invalid without that trigger.

        Raises Forbidden without the permission `actions: write`. The new run is found by its branch and event.
        """

    async def merge(
        self, repository: Repository, number: int, head_sha: str, method: MergeMethod, text: MergeCommit | None = None
    ) -> str:
        """`PUT /repos/{o}/{r}/pulls/{n}/merge` with `sha` as precondition. Returns the SHA that landed."""

    async def merge_in_background(
        self, repository: Repository, number: int, head_sha: str, method: MergeMethod, text: MergeCommit | None = None
    ) -> PendingMerge:
        """`PUT /repos/{o}/{r}/pulls/{n}/merge-async` with `sha` as precondition; also what lies below it in its stack.

        A repetition is harmless: GitHub answers with the request that is under way (409), or the commit (200). Raises
        NotFound where GitHub does not offer it.
        """


class Comments(Protocol):
    """What people see of IMQ: comments, check runs, labels."""

    async def create_comment(self, repository: Repository, number: int, body: str) -> int:
        """`POST .../issues/{n}/comments`. Returns the comment's id.

        Merges go before comments. Raises `CommentLimitError` where the merges that `working(yields_to=...)` names need
        the rest of the content that GitHub lets the installation create.
        """

    async def update_comment(self, repository: Repository, comment_id: int, body: str) -> None:
        """`PATCH .../issues/comments/{id}`. Raises NotFound when somebody deleted it."""

    async def delete_comment(self, repository: Repository, comment_id: int) -> bool:
        """`DELETE .../issues/comments/{id}`. Returns whether the comment existed."""

    async def find_comments(self, repository: Repository, number: int) -> Mapping[int, str]:
        """IMQ's own comments on this pull request whose body contains `marker`, by id, oldest first; all pages."""

    async def create_check_run(self, repository: Repository, check_run: Mapping[str, Any]) -> int:
        """`POST .../check-runs` with GitHub's fields (name, head_sha, external_id, status, ...). Returns the id."""

    async def update_check_run(self, repository: Repository, check_run_id: int, check_run: Mapping[str, Any]) -> None:
        """`PATCH .../check-runs/{id}`. Raises NotFound when GitHub no longer knows it."""

    async def find_check_run(
        self, repository: Repository, head_sha: str, name: str, external_id: str, *, unfinished: bool = False
    ) -> int | None:
        """The id of IMQ's own check run on this commit with this external id; if `unfinished`, only while it runs."""

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """`POST /repos/{o}/{r}/issues/{n}/labels`; an existing label is no error."""

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """`DELETE /repos/{o}/{r}/issues/{n}/labels/{name}`; a missing label is no error."""


class GitHub(Reads, Writes, Protocol):
    """What the engine needs."""


class GitHubPorts(GitHub, Comments, Protocol):
    """All three, as the gateway answers them."""
