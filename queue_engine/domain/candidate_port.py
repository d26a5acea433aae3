"""The part of the port to GitHub that builds candidates, starts CI on them, and moves branches."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from queue_engine.domain.facts import Commit, HeadPush, Snapshot
from queue_engine.domain.model import Repository

NO_BRANCH = "0" * 40
"""GitHub's name for the tip of a branch that does not exist."""


@dataclass(frozen=True, slots=True)
class BranchUpdate:
    """A move of one branch: `before` is the expected tip, None for any; `after` None deletes the branch.

    With `NO_BRANCH` as `before` the branch must not exist.
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


class CandidatePort(Protocol):
    """Calls for candidates. Part of `queue_engine.domain.port.GitHub`, whose errors they raise."""

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        """Read the snapshots of several pull requests in few queries of GraphQL, by their numbers.

        Those that GitHub does not show so are missing: `snapshot` reads them, and raises their errors.
        """
        ...

    async def create_branch(self, repository: Repository, branch: str, sha: str) -> None:
        """`POST /repos/{o}/{r}/git/refs`. Raises Invalid if the branch exists, or a rule forbids it."""
        ...

    async def candidate_branches(self, repository: Repository) -> Mapping[str, str]:
        """The branches that are named like those of candidates, with their tips (`GET /git/matching-refs/heads/imq`).

        Names prove nothing: `branch_pushes` says who made a branch.
        """
        ...

    async def branch_pushes(self, repository: Repository, branch: str) -> tuple[HeadPush, ...]:
        """`GET /repos/{o}/{r}/activity` of a branch, newest first; empty where IMQ may not read it."""
        ...

    async def merge_into(self, repository: Repository, branch: str, head_sha: str, message: str) -> Commit | None:
        """`POST /repos/{o}/{r}/merges`: merge a commit into a branch. None if the branch contains it (204).

        Raises HeadConflict for a conflict, NotFound for a missing commit or branch, Forbidden for a permission, and
        Invalid by rules.
        """
        ...

    async def create_commit(self, repository: Repository, tree: str, parents: Sequence[str], message: str) -> Commit:
        """`POST /repos/{o}/{r}/git/commits`, without author and committer, so that GitHub signs it."""
        ...

    async def update_refs(self, repository: Repository, updates: Sequence[BranchUpdate]) -> None:
        """GraphQL `updateRefs`: all moves or none. Raises HeadConflict if a tip is another, MergeError by a rule.

        GitHub gives both one type, and documents no words: after either error read the tips before deciding. Raises
        Forbidden for a permission, and where GitHub has no such mutation.
        """
        ...

    async def refuses_outdated(self, repository: Repository, base_branch: str) -> bool:
        """Whether rules refuse IMQ's merge of a head without the base's tip; one request for each such ruleset."""
        ...

    async def open_draft(self, repository: Repository, head: str, base: str, title: str, body: str) -> int:
        """`POST /repos/{o}/{r}/pulls` as a draft, or as no draft where the repository has none. Returns its number.

        Returns the number of the open one if this head has one already.
        """
        ...

    async def close_pull_request(self, repository: Repository, number: int) -> None:
        """`PATCH /repos/{o}/{r}/pulls/{n}`; a closed one is no error."""
        ...

    async def dispatch_workflow(
        self, repository: Repository, path: str, branch: str, inputs: Mapping[str, str]
    ) -> None:
        """`POST /repos/{o}/{r}/actions/workflows/{file}/dispatches`. Raises Invalid without that trigger.

        Raises Forbidden without the permission `actions: write`. The new run is found by its branch and event.
        """
        ...

    async def workflow_files(self, repository: Repository, commit: str) -> Mapping[str, str]:
        """The text of each file in `.github/workflows` at a commit, by its path, in one query of GraphQL.

        Empty where GitHub shows no complete text. Raises NotFound for a missing commit, Forbidden without GraphQL.
        """
        ...

    async def texts(self, repository: Repository, commit: str, paths: Sequence[str]) -> Mapping[str, str]:
        """The text of those of these files that a commit has, by their paths, in one query of GraphQL.

        Empty where GitHub shows no complete text. Raises Forbidden without GraphQL.
        """
        ...
