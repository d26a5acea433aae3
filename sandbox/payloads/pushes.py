"""Pushes, as webhooks tell of them."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sandbox.payloads.commits import push_commit
from sandbox.state import ZERO_SHA, Actor, Repository

if TYPE_CHECKING:
    from sandbox.github import GitHub

COMMITS_LISTED = 2048
"""The most commits that a push lists ("Webhook events and payloads: push")."""


@dataclass(frozen=True, slots=True)
class Push:
    """One reference (`refs/heads/main`, `refs/tags/v1`) that was created, moved or deleted."""

    repository: Repository
    ref: str
    before: str | None
    after: str | None
    forced: bool
    actor: Actor


def push(github: "GitHub", told: Push) -> dict[str, Any]:
    """The content of a `push` event. It lists the new commits of a branch that moved, the oldest first."""
    repository, before, after = told.repository, told.before, told.after
    git = repository.git
    moved = told.ref.startswith("refs/heads/") and before is not None and after is not None
    new = git.log(after, before) if moved and after is not None else []
    head = None if after is None else git.must(git.peel(after))
    ends = f"{(before or ZERO_SHA)[:12]}...{(after or ZERO_SHA)[:12]}"
    return {
        "ref": told.ref,
        "before": before or ZERO_SHA,
        "after": after or ZERO_SHA,
        "created": before is None,
        "deleted": after is None,
        "forced": told.forced,
        "base_ref": None,
        "compare": f"{github.html_url}/{repository.full_name}/compare/{ends}",
        "commits": [push_commit(github, repository, commit) for commit in reversed(new[:COMMITS_LISTED])],
        "head_commit": None if head is None else push_commit(github, repository, head),
        "pusher": {"name": told.actor.user.login, "email": told.actor.user.email},
    }
