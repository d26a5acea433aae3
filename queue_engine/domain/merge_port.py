"""The part of the port to GitHub that merges pull requests, at once or in the background."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import Repository


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
    """What names the merge while it is pending."""
    sha: str | None = None
    """The commit that landed."""


class Merges(Protocol):
    """Merges of pull requests. Part of `queue_engine.domain.port.GitHub`, whose errors they raise."""

    async def merge(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> str:
        """`PUT /repos/{o}/{r}/pulls/{n}/merge` with `sha` as precondition. Returns the SHA that landed."""
        ...

    async def merge_in_background(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> PendingMerge:
        """`PUT /repos/{o}/{r}/pulls/{n}/merge-async` with `sha` as precondition; also what lies below it in its stack.

        A repetition is harmless: GitHub answers with the request that is under way (409), or the commit (200). Raises
        NotFound where GitHub does not offer it.
        """
        ...

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """`GET /repos/{o}/{r}/pulls/{n}/merge-async/{uuid}`; GitHub keeps the result for a day, then NotFound."""
        ...
