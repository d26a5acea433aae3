"""The part of the port to GitHub that reads commits, and compares them."""

from typing import Protocol

from queue_engine.domain.facts import Commit, Comparison
from queue_engine.domain.model import Repository


class CommitReads(Protocol):
    """Reads and comparisons of commits. Part of `queue_engine.domain.port.GitHub`, whose errors they raise."""

    async def comparison(self, repository: Repository, base_branch: str, head_sha: str) -> Comparison:
        """`GET /repos/{o}/{r}/compare/{base}...{head}`: base tip, merge base, and the head commit, in one request."""
        ...

    async def changed_paths(self, repository: Repository, base: str, before: str, after: str) -> frozenset[str] | None:
        """`GET /repos/{o}/{r}/compare/{before}...{after}`: former and new paths of the files that changed on a base.

        None if GitHub does not list all, or `after` does not contain `before`.
        """
        ...

    async def paths_of_head(self, repository: Repository, base: str, tip: str, head: str) -> frozenset[str] | None:
        """`GET /repos/{o}/{r}/compare/{tip}...{head}`: former and new paths of the files that a pull request changes.

        These count from the commit at which it left the base. None if GitHub does not list all.
        """
        ...

    async def differing_paths(self, repository: Repository, tree: str, landed: Commit) -> frozenset[str] | None:
        """`GET /repos/{o}/{r}/git/trees/{sha}` of both trees: the files in which they differ.

        None if GitHub does not list all.
        """
        ...

    async def commit(self, repository: Repository, sha: str) -> Commit:
        """`GET /repos/{o}/{r}/git/commits/{sha}`."""
        ...
