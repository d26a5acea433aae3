"""Commits, in the three shapes of REST, git data and push webhooks; and changed files."""

from typing import Any
from urllib.parse import quote

from github_emulator.core.diff import FileChange
from github_emulator.core.git import Commit, Signature, Tag
from github_emulator.domain.rules.signatures import verified
from github_emulator.payloads.accounts import node_id, user
from github_emulator.payloads.repositories import api, html
from github_emulator.payloads.source import Source
from github_emulator.payloads.times import timestamp
from github_emulator.state import Repository

_SIGNATURE = "-----BEGIN PGP SIGNATURE-----\n\nemulator\n-----END PGP SIGNATURE-----\n"


def git_user(who: Signature) -> dict[str, Any]:
    """A signature as git data shows it."""
    return {"name": who.name, "email": who.email, "date": timestamp(who.date)}


def git_commit(source: Source, record: Repository, found: Commit) -> dict[str, Any]:
    """`git-commit`, of `git/commits/{sha}`."""
    url = api(source, record)
    return {
        "sha": found.sha,
        "node_id": node_id("Commit", int(found.sha[:8], 16)),
        "url": f"{url}/git/commits/{found.sha}",
        "html_url": f"{html(source, record)}/commit/{found.sha}",
        "author": git_user(found.author),
        "committer": git_user(found.committer),
        "message": found.message,
        "tree": {"sha": found.tree, "url": f"{url}/git/trees/{found.tree}"},
        "parents": _parents(source, record, found, "git/commits"),
        "verification": _verification(source, found),
    }


def git_tag(source: Source, record: Repository, found: Tag) -> dict[str, Any]:
    """`git-tag`: the object of an annotated tag."""
    url = f"{api(source, record)}/git"
    kind, target = found.target_type, found.target
    return {
        "node_id": node_id("Tag", int(found.sha[:8], 16)),
        "tag": found.name,
        "sha": found.sha,
        "url": f"{url}/tags/{found.sha}",
        "message": found.message,
        "tagger": git_user(found.tagger),
        "object": {"type": kind, "sha": target, "url": f"{url}/{kind}s/{target}"},
    }


def commit(source: Source, record: Repository, found: Commit, *, files: bool = False) -> dict[str, Any]:
    """`commit`; with its files and their count when asked for a single one."""
    url = api(source, record)
    shown: dict[str, Any] = {
        "url": f"{url}/commits/{found.sha}",
        "sha": found.sha,
        "node_id": node_id("Commit", int(found.sha[:8], 16)),
        "html_url": f"{html(source, record)}/commit/{found.sha}",
        "comments_url": f"{url}/commits/{found.sha}/comments",
        "commit": {
            "url": f"{url}/git/commits/{found.sha}",
            "author": git_user(found.author),
            "committer": git_user(found.committer),
            "message": found.message,
            "comment_count": 0,
            "tree": {"sha": found.tree, "url": f"{url}/git/trees/{found.tree}"},
            "verification": _verification(source, found),
        },
        "author": _account(source, found.author),
        "committer": _account(source, found.committer),
        "parents": _parents(source, record, found, "commits"),
    }
    if files:
        old = found.parents[0] if found.parents else record.git.write_tree(None, {})
        changes = record.git.diff(old, found.sha)
        additions, deletions = sum(one.additions for one in changes), sum(one.deletions for one in changes)
        shown["stats"] = {"additions": additions, "deletions": deletions, "total": additions + deletions}
        shown["files"] = [file_change(source, record, found.sha, change) for change in changes]
    return shown


def push_commit(source: Source, record: Repository, found: Commit) -> dict[str, Any]:
    """A commit as push webhooks list it."""
    old = found.parents[0] if found.parents else record.git.write_tree(None, {})
    changes = record.git.diff(old, found.sha)
    return {
        "id": found.sha,
        "tree_id": found.tree,
        "distinct": True,
        "message": found.message,
        "timestamp": timestamp(found.committer.date),
        "url": f"{html(source, record)}/commit/{found.sha}",
        "author": _pusher(source, found.author),
        "committer": _pusher(source, found.committer),
        "added": [change.filename for change in changes if change.status in {"added", "renamed", "copied"}],
        "removed": [change.previous_filename or change.filename for change in changes if change.status in _GONE],
        "modified": [change.filename for change in changes if change.status in {"modified", "changed"}],
    }


_GONE = frozenset({"removed", "renamed"})


def file_change(source: Source, record: Repository, sha: str, change: FileChange) -> dict[str, Any]:
    """`diff-entry`; `sha` is the commit whose version is linked."""
    path = quote(change.filename)
    page = html(source, record)
    shown: dict[str, Any] = {
        "sha": change.sha,
        "filename": change.filename,
        "status": change.status,
        "additions": change.additions,
        "deletions": change.deletions,
        "changes": change.additions + change.deletions,
        "blob_url": f"{page}/blob/{sha}/{path}",
        "raw_url": f"{page}/raw/{sha}/{path}",
        "contents_url": f"{api(source, record)}/contents/{path}?ref={sha}",
    }
    if change.patch is not None:
        shown["patch"] = change.patch
    if change.previous_filename is not None:
        shown["previous_filename"] = change.previous_filename
    return shown


def _verification(source: Source, found: Commit) -> dict[str, Any]:
    if not verified(source.state, found):
        return {"verified": False, "reason": "unsigned", "signature": None, "payload": None, "verified_at": None}
    at = timestamp(found.committer.date)
    return {
        "verified": True,
        "reason": "valid",
        "signature": _SIGNATURE,
        "payload": f"tree {found.tree}\n",
        "verified_at": at,
    }


def _parents(source: Source, record: Repository, found: Commit, kind: str) -> list[dict[str, Any]]:
    url, page = api(source, record), html(source, record)
    return [
        {"sha": parent, "url": f"{url}/{kind}/{parent}", "html_url": f"{page}/commit/{parent}"}
        for parent in found.parents
    ]


def _account(source: Source, who: Signature) -> dict[str, Any] | None:
    if (account := source.accounts.account_of(who)) is None:
        return {} if source.behaviour.unknown_authors_empty else None
    return user(source, account)


def _pusher(source: Source, who: Signature) -> dict[str, Any]:
    account = source.accounts.account_of(who)
    shown = {"name": who.name, "email": who.email, "date": timestamp(who.date)}
    return shown | ({} if account is None else {"username": account.login})


def simple_commit(record: Repository, sha: str) -> dict[str, Any]:
    """`simple-commit`, as check suites and workflow runs carry it."""
    found = record.git.must(sha)
    return {
        "id": found.sha,
        "tree_id": found.tree,
        "message": found.message,
        "timestamp": timestamp(found.committer.date),
        "author": {"name": found.author.name, "email": found.author.email},
        "committer": {"name": found.committer.name, "email": found.committer.email},
    }
