"""Endpoints of a repository: itself, its people, its files."""

import base64
from typing import Any
from urllib.parse import quote

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_accessible, not_found
from github_emulator.callers.visibility import may_push
from github_emulator.core.git import TreeEntry
from github_emulator.payloads.repositories import api, html, permissions
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("repos/repos")
# What GitHub's older `permission` field says for each role: triage and maintain are told by role_name only.
_MERGE_SETTINGS = frozenset(
    {"allow_auto_merge", "allow_merge_commit", "allow_rebase_merge", "allow_squash_merge", "delete_branch_on_merge"}
)
_LARGEST = 1024**2
_LEGACY = {"triage": "read", "maintain": "write"}


@routes.repository("GET", "", docs="#get-a-repository")
def get_repository(call: Call) -> Answer:
    """The repository; merge settings are shown to those who may write."""
    shown = payloads.repository(call.github.source, call.repository)
    if call.github.behaviour.merge_settings_need_push and not may_push(call.caller):
        shown = {name: value for name, value in shown.items() if name not in _MERGE_SETTINGS}
    return Answer(shown)


@routes.repository(
    "GET",
    "/collaborators/{username}/permission",
    docs="collaborators/collaborators#get-repository-permissions-for-a-user",
)
def get_permission(call: Call) -> Answer:
    """What a person may do here. 404 for somebody GitHub does not know; `none` for a stranger."""
    if call.github.behaviour.permissions_need_push and not may_push(call.caller):
        raise not_accessible("contents=write")
    user = call.github.state.users.get(call.params["username"].lower())
    if user is None:
        raise Refusal(404, f"{call.params['username']} is not a user")
    role = call.github.accounts.role(user, call.repository)
    shown = {
        **payloads.user(call.github.source, user),
        "permissions": permissions(call.github.source, call.repository, user),
        "role_name": role,
    }
    return Answer({"permission": _LEGACY.get(role, role), "role_name": role, "user": shown})


@routes.repository("GET", "/contents/{path}", "contents=read", docs="repos/contents#get-repository-content")
def get_contents(call: Call) -> Answer:
    """A file (base64, lines of 60; as it is for the raw media type) or a directory's list."""
    git = call.repository.git
    ref = call.query.get("ref", call.repository.default_branch)
    sha = git.resolve(ref)
    if sha is None:
        raise Refusal(404, f"No commit found for the ref {ref}")
    path = call.params["path"].strip("/")
    entries = {entry.path: entry for entry in git.entries(sha, recursive=True)}
    entry = entries.get(path)
    if entry is None:
        raise not_found()
    if entry.type == "tree":
        below = [one for one in entries.values() if one.path.rpartition("/")[0] == path]
        return Answer([_content(call, one, ref) for one in below])
    data = git.read(sha, path)
    assert data is not None, "a listed file can be read"
    if "raw" in call.accept:
        return Answer(data)
    if len(data) > _LARGEST:
        # GitHub's page: above a megabyte only the raw media type gives the content.
        return Answer({**_content(call, entry, ref), "encoding": "none", "content": ""})
    content = base64.encodebytes(data).decode()
    return Answer({**_content(call, entry, ref), "encoding": "base64", "content": content})


def _content(call: Call, entry: TreeEntry, ref: str) -> dict[str, Any]:
    github, repository = call.github, call.repository
    base, web = api(github.source, repository), html(github.source, repository)
    path = quote(entry.path)
    url = f"{base}/contents/{path}?ref={quote(ref)}"
    kind = "file" if entry.type == "blob" else "dir"
    git_url = f"{base}/git/{entry.type}s/{entry.sha}"
    html_url = f"{web}/{entry.type}/{quote(ref)}/{path}"
    return {
        "type": kind,
        "size": entry.size or 0,
        "name": entry.path.rpartition("/")[2],
        "path": entry.path,
        "sha": entry.sha,
        "url": url,
        "git_url": git_url,
        "html_url": html_url,
        "download_url": f"{web}/raw/{quote(ref)}/{path}" if kind == "file" else None,
        "_links": {"self": url, "git": git_url, "html": html_url},
    }
