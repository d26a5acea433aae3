"""Pushes, as webhooks tell of them."""

from typing import Any

from github_emulator.events.events import RefMoved
from github_emulator.payloads.accounts import node_id, user
from github_emulator.payloads.commits import push_commit
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import ZERO_SHA, Activity

COMMITS_LISTED = 2048
"""The most commits that a push lists ("Webhook events and payloads: push")."""


def push(source: Source, event: RefMoved) -> dict[str, Any]:
    """The content of a `push` event. It lists the new commits of a branch that moved, the oldest first."""
    repository, before, after = event.repository, event.before, event.after
    git = repository.git
    moved = event.ref.startswith("refs/heads/") and before is not None and after is not None
    new = git.log(after, before) if moved and after is not None else []
    head = None if after is None else git.must(git.peel(after))
    ends = f"{(before or ZERO_SHA)[:12]}...{(after or ZERO_SHA)[:12]}"
    return {
        "ref": event.ref,
        "before": before or ZERO_SHA,
        "after": after or ZERO_SHA,
        "created": before is None,
        "deleted": after is None,
        "forced": event.forced,
        "base_ref": None,
        "compare": f"{source.addresses.html_url}/{repository.full_name}/compare/{ends}",
        "commits": [push_commit(source, repository, commit) for commit in reversed(new[:COMMITS_LISTED])],
        "head_commit": None if head is None else push_commit(source, repository, head),
        "pusher": {"name": event.actor.user.login, "email": event.actor.user.email},
    }


def activity(source: Source, record: Activity) -> dict[str, Any]:
    """`activity`: a move of a branch, as the list of a repository's activities shows it."""
    return {
        "id": record.id,
        "node_id": node_id("Push", record.id),
        "before": record.before or ZERO_SHA,
        "after": record.after or ZERO_SHA,
        "ref": record.ref,
        "timestamp": timestamp(record.at),
        "activity_type": record.kind,
        "actor": user(source, record.actor),
    }
