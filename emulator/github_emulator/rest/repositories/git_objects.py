"""Endpoints that create git's objects: blobs, trees, commits and tags, none of which moves a reference."""

import base64
import binascii
from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_found
from github_emulator.core.git import Signature, TreeChange
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.repositories.git import show_tree
from github_emulator.rest.routing import Routes

routes = Routes("git/commits")
_WRITE = "contents=write"
_KINDS = {"100644": "blob", "100755": "blob", "120000": "blob", "040000": "tree", "160000": "commit"}
"""What an entry of a tree must be, by its mode."""


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
    """A directory: that of `base_tree` with these entries set by content or by object; `sha: null` deletes one."""
    changes = [_change(call, entry) for entry in call.take("tree", list)]
    try:
        sha = call.repository.git.change_tree(call.take("base_tree", str, None), changes)
    except (KeyError, ValueError, OSError) as error:
        raise Refusal(422, "base_tree is not a valid tree oid") from error
    return Answer(show_tree(call, sha, recursive=False), 201)


def _change(call: Call, entry: dict[str, Any]) -> TreeChange:
    """One entry of the request: its mode says what its object must be (docs: "Create a tree")."""
    git, path, mode = call.repository.git, str(entry.get("path")), str(entry.get("mode", "100644"))
    if mode not in _KINDS:
        raise Refusal(422, f"tree.mode {mode} is not one of {', '.join(_KINDS)}")
    if "content" in entry:
        return TreeChange(path, mode, git.write_blob(str(entry["content"]).encode()))
    if entry.get("sha") is None:
        return TreeChange(path, mode, None)
    # A submodule's commit is in another repository.
    if mode != "160000" and git.object_type(str(entry["sha"])) != _KINDS[mode]:
        raise Refusal(422, f"tree.sha is not a valid {_KINDS[mode]}")
    return TreeChange(path, mode, str(entry["sha"]))


@routes.repository("GET", "/git/tags/{tag_sha}", "contents=read", docs="git/tags#get-a-tag")
def get_tag(call: Call) -> Answer:
    """An annotated tag by the SHA of its own object."""
    found = call.repository.git.tag(call.params["tag_sha"])
    if found is None:
        raise not_found()
    return Answer(payloads.git_tag(call.github.source, call.repository, found))


@routes.repository("POST", "/git/tags", _WRITE, role="write", docs="git/tags#create-a-tag-object")
def create_tag(call: Call) -> Answer:
    """The object of an annotated tag; only a reference to it makes a tag of it (docs: "Create a tag object")."""
    git, kind, target = call.repository.git, call.take("type", str), call.take("object", str)
    name, message = call.take("tag", str), call.take("message", str)
    if git.object_type(target) != kind:
        raise Refusal(422, "Object does not exist, or is of another type")
    found = git.tag(git.write_tag(name, target, message, signature(call, "tagger") or call.signature))
    assert found is not None
    return Answer(payloads.git_tag(call.github.source, call.repository, found), 201)


@routes.repository("POST", "/git/commits", _WRITE, role="write", docs="#create-a-commit")
def create_commit(call: Call) -> Answer:
    """A commit of a tree; GitHub signs an App's own, if it names neither author nor committer (docs: "Signature
    verification for bots")."""
    git = call.repository.git
    message, tree = call.take("message", str), call.take("tree", str)
    parents: tuple[str, ...] = tuple(call.take("parents", list, []))
    if any(git.commit(parent) is None for parent in parents):
        raise Refusal(422, "Parent SHA does not exist or is not a commit object")
    if git.object_type(tree) != "tree":
        raise Refusal(422, "Tree SHA does not exist")
    author, committer = signature(call, "author"), signature(call, "committer")
    unnamed = author is None and committer is None
    signs = call.actor.app is not None and unnamed and call.github.behaviour.app_commits_signed
    last = Signature("GitHub", "noreply@github.com", call.github.clock.now()) if signs else committer or author
    found = git.must(git.write_commit(tree, parents, message, author or call.signature, last))
    return Answer(payloads.git_commit(call.github.source, call.repository, found), 201)


def signature(call: Call, name: str) -> Signature | None:
    """Who wrote it, by a field of the body; None where the request does not say."""
    given: dict[str, Any] | None = call.take(name, dict, None)
    if given is None:
        return None
    return Signature(str(given.get("name")), str(given.get("email")), call.github.clock.now())


def _url(call: Call, kind: str, sha: str) -> str:
    return f"{call.api_url}/repos/{call.repository.full_name}/git/{kind}/{sha}"
