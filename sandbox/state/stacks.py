"""Stacks of pull requests, and requests to merge that GitHub carries out later."""

from dataclasses import dataclass
from datetime import datetime

from sandbox.state.accounts import Actor
from sandbox.state.pulls import PullRequest


@dataclass(frozen=True, eq=False, slots=True, repr=False)
class Stack:
    """Pull requests of which each is based on the head branch of the one before; the first one is the bottom.

    Merged members stay in it (rjmurillo/ai-agents #5473). `number` is one of the repository's, as a pull request's is.
    """

    id: int
    number: int
    base_branch: str
    pulls: tuple[PullRequest, ...]


@dataclass(eq=False, slots=True, repr=False)
class MergeRequest:
    """A request to merge a pull request later. `status` is pending, merged, enqueued or failed."""

    uuid: str
    pull: PullRequest
    actor: Actor
    method: str | None
    action: str
    title: str | None
    text: str | None
    expected_head_sha: str
    updated_at: datetime
    status: str = "pending"
    message: str = "Merge request enqueued."
    sha: str | None = None
