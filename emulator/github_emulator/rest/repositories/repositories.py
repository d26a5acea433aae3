"""Endpoints of a repository: itself, its people, its files."""

import base64
import binascii
from typing import Any
from urllib.parse import quote

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, invalid_request, not_accessible, not_found
from github_emulator.callers.visibility import may_push
from github_emulator.core.git import TreeChange, TreeEntry
from github_emulator.payloads.repositories import api, html, permissions
from github_emulator.rest.answer import Access, Answer
from github_emulator.rest.call import Call
from github_emulator.rest.repositories.git_objects import signature
from github_emulator.rest.routing import Routes

routes = Routes("repos/repos")
# What GitHub's older `permission` field says for each role: triage and maintain are told by role_name only.
_MERGE_SETTINGS = frozenset(
    {"allow_auto_merge", "allow_merge_commit", "allow_rebase_merge", "allow_squash_merge", "delete_branch_on_merge"}
)
_LARGEST = 1024**2
_LEGACY = {"triage": "read", "maintain": "write"}


@routes.add(
    "POST", "/user/repos", Access("anyone"), docs="#create-a-repository-for-the-authenticated-user", creates=True
)
def create_repository(call: Call) -> Answer:
    """A repository of the person whose token it is. It begins with a README, as if `auto_init` were always set."""
    user, name = call.person.user, call.take("name", str)
    full_name, description = f"{user.login}/{name}", call.take("description", str, None)
    if call.github.find_repository(full_name) is not None:
        problem = {"resource": "Repository", "code": "custom", "field": "name"}
        taken = {**problem, "message": "name already exists on this account"}
        raise Refusal(422, "Repository creation failed.", errors=[taken])
    made = call.github.create_repository(
        full_name,
        files={"README.md": f"# {name}\n" + (f"{description}\n" if description else "")},
        private=call.take("private", bool, False),
        allow_merge_commit=call.take("allow_merge_commit", bool, True),
        allow_squash_merge=call.take("allow_squash_merge", bool, True),
        allow_rebase_merge=call.take("allow_rebase_merge", bool, True),
    )
    return Answer(payloads.repository(call.github.source, made.record, viewer=user), 201)


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


@routes.repository(
    "PUT",
    "/contents/{path}",
    "contents=write",
    role="write",
    docs="repos/contents#create-or-update-file-contents",
    creates=True,
)
def put_contents(call: Call) -> Answer:
    """A commit that creates a file, or changes the one whose blob has this `sha`."""
    git, path, given = call.repository.git, call.params["path"].strip("/"), call.take("sha", str, None)
    branch, message = call.take("branch", str, call.repository.default_branch), call.take("message", str)
    tip = git.branch(branch)
    if tip is None:
        raise Refusal(404, f"Branch {branch} not found")
    try:
        blob = git.write_blob(base64.b64decode(call.take("content", str)))
    except binascii.Error as error:
        raise Refusal(422, "content is not valid Base64") from error
    old = git.entry(tip, path)
    if old is not None and given is None:
        raise invalid_request('"sha" wasn\'t supplied.')
    if given is not None and (old is None or old.sha != given):
        raise Refusal(409, f"{path} does not match {given}")
    tree = git.change_tree(tip, [TreeChange(path, "100644" if old is None else old.mode, blob)])
    author = signature(call, "author") or signature(call, "committer") or call.signature
    sha = git.write_commit(tree, (tip,), message, author, signature(call, "committer"))
    call.github.refs.update(call.repository, branch, sha, actor=call.actor)
    entry = git.entry(sha, path)
    assert entry is not None, "the file was just written"
    commit = payloads.git_commit(call.github.source, call.repository, git.must(sha))
    return Answer({"content": _content(call, entry, branch), "commit": commit}, 201 if old is None else 200)


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
