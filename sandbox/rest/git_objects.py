"""Endpoints that create git's objects: blobs, trees and commits, none of which moves a branch."""

import base64
import binascii
from typing import Any

from sandbox import payloads
from sandbox.git import Signature
from sandbox.rest.call import Call
from sandbox.rest.errors import Refusal, not_found
from sandbox.rest.git import show_tree
from sandbox.rest.routing import Answer, Routes

routes = Routes("git/commits")
_WRITE = "contents=write"


@routes.repository("GET", "/git/blobs/{file_sha}", "contents=read", docs="git/blobs#get-a-blob")
def get_blob(call: Call) -> Answer:
    """A file's content, in base64."""
    sha = call.params["file_sha"]
    data = call.repository.git.blob(sha)
    if data is None:
        raise not_found()
    shown = {"sha": sha, "node_id": f"B_{call.repository.id}_{sha}", "size": len(data), "url": _url(call, "blobs", sha)}
    return Answer({**shown, "content": base64.encodebytes(data).decode(), "encoding": "base64"})


@routes.repository("POST", "/git/blobs", _WRITE, role="write", docs="git/blobs#create-a-blob")
def create_blob(call: Call) -> Answer:
    """A file's content, as text or in base64."""
    content, encoding = call.take("content", str), call.one_of("encoding", ("utf-8", "base64"), "utf-8")
    try:
        data = base64.b64decode(content) if encoding == "base64" else content.encode()
    except binascii.Error as error:
        raise Refusal(422, "content is not valid Base64") from error
    sha = call.repository.git.write_blob(data)
    return Answer({"sha": sha, "url": _url(call, "blobs", sha)}, 201)


@routes.repository("POST", "/git/trees", _WRITE, role="write", docs="git/trees#create-a-tree")
def create_tree(call: Call) -> Answer:
    """A directory: that of `base_tree` with these files set by content or by blob; `sha: null` deletes one."""
    git = call.repository.git
    files: dict[str, str | bytes | None] = {}
    for entry in call.take("tree", list):
        files[str(entry.get("path"))] = _content(call, entry)
    try:
        sha = git.write_tree(call.take("base_tree", str, None), files)
    except (KeyError, ValueError, OSError) as error:
        raise Refusal(422, "base_tree is not a valid tree oid") from error
    return Answer(show_tree(call, sha, recursive=False), 201)


def _content(call: Call, entry: dict[str, Any]) -> str | bytes | None:
    if "content" in entry:
        return str(entry["content"])
    if entry.get("sha") is None:
        return None
    data = call.repository.git.blob(str(entry["sha"]))
    if data is None:
        raise Refusal(422, "tree.sha is not a valid blob")
    return data


@routes.repository("POST", "/git/commits", _WRITE, role="write", docs="#create-a-commit")
def create_commit(call: Call) -> Answer:
    """A commit of a tree; GitHub signs an App's own, if it names neither author nor committer (docs: "Signature
    verification for bots")."""
    git, now = call.repository.git, call.github.clock.now()
    message, tree = call.take("message", str), call.take("tree", str)
    parents: tuple[str, ...] = tuple(call.take("parents", list, []))
    if any(git.commit(parent) is None for parent in parents):
        raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    if not git.is_tree(tree):
        raise Refusal(422, "Tree SHA does not exist")
    own = Signature(call.actor.user.login, call.actor.user.email, now)
    author, committer = _signature(call, "author", own), _signature(call, "committer", None)
    signs = call.actor.app is not None and author is own and committer is None
    last = Signature("GitHub", "noreply@github.com", now) if signs else committer or author
    found = git.must(git.write_commit(tree, parents, message, author or own, last))
    return Answer(payloads.git_commit(call.github, call.repository, found), 201)


def _signature(call: Call, name: str, default: Signature | None) -> Signature | None:
    given: dict[str, Any] | None = call.take(name, dict, None)
    if given is None:
        return default
    return Signature(str(given.get("name")), str(given.get("email")), call.github.clock.now())


def _url(call: Call, kind: str, sha: str) -> str:
    return f"{call.api_url}/repos/{call.repository.full_name}/git/{kind}/{sha}"
