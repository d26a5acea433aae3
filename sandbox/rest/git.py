"""Endpoints of git itself: commits, references and trees."""

from typing import Any

from sandbox import payloads
from sandbox.rest.call import Call
from sandbox.rest.errors import Refusal, not_found
from sandbox.rest.routing import Answer, Routes

routes = Routes("git/refs")
_WRITE = "contents=write"


@routes.repository("GET", "/git/commits/{commit_sha}", "contents=read", docs="git/commits#get-a-commit-object")
def get_commit(call: Call) -> Answer:
    """A commit as git knows it."""
    commit = call.repository.git.commit(call.params["commit_sha"])
    if commit is None:
        raise not_found()
    return Answer(payloads.git_commit(call.github, call.repository, commit))


@routes.repository("GET", "/git/trees/{tree_sha}", "contents=read", docs="git/trees#get-a-tree")
def get_tree(call: Call) -> Answer:
    """A directory, or with `recursive` all below it."""
    git, name = call.repository.git, call.params["tree_sha"]
    try:
        return Answer(show_tree(call, git.resolve(name) or name, recursive="recursive" in call.query))
    except (KeyError, ValueError) as error:
        raise not_found() from error


def show_tree(call: Call, sha: str, *, recursive: bool) -> dict[str, Any]:
    """`git-tree` of a commit or tree. Raises KeyError or ValueError when there is none."""
    git = call.repository.git
    entries, tree_sha = git.entries(sha, recursive=recursive), git.write_tree(sha, {})
    base = f"{call.api_url}/repos/{call.repository.full_name}/git"
    tree: list[dict[str, Any]] = [
        {
            "path": entry.path,
            "mode": entry.mode,
            "type": entry.type,
            "sha": entry.sha,
            "url": f"{base}/{entry.type}s/{entry.sha}",
            **({"size": entry.size} if entry.size is not None else {}),
        }
        for entry in entries
    ]
    return {"sha": tree_sha, "url": f"{base}/trees/{tree_sha}", "tree": tree, "truncated": False}


@routes.repository("GET", "/git/ref/{ref}", "contents=read", docs="#get-a-reference")
def get_ref(call: Call) -> Answer:
    """What a reference such as `heads/main` points at."""
    return Answer(_shown(call, call.params["ref"]))


@routes.repository("GET", "/git/matching-refs/{ref}", "contents=read", docs="#list-matching-references")
def matching_refs(call: Call) -> Answer:
    """The branches and pull requests' references that start like this."""
    start = call.params["ref"]
    names = [f"heads/{name}" for name in call.repository.git.branches()]
    for number in call.repository.pulls:
        ends = (f"pull/{number}/{end}" for end in ("head", "merge"))
        names += [name for name in ends if call.repository.git.ref(name) is not None]
    return Answer([_shown(call, name) for name in names if name.startswith(start)])


@routes.repository("POST", "/git/refs", _WRITE, role="write", docs="#create-a-reference")
def create_ref(call: Call) -> Answer:
    """A new branch at an existing commit."""
    ref, sha = call.take("ref", str), call.take("sha", str)
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise Refusal(422, "Reference name must start with 'refs/' and contain at least two slashes.")
    name = ref.removeprefix("refs/")
    call.github.refs.create(call.repository, _branch(name), sha, actor=call.actor)
    return Answer(_shown(call, name), 201)


@routes.repository("PATCH", "/git/refs/{ref}", _WRITE, role="write", docs="#update-a-reference")
def update_ref(call: Call) -> Answer:
    """Moves a branch; only forward unless forced."""
    name, sha, force = call.params["ref"], call.take("sha", str), call.take("force", bool, False)
    call.github.refs.update(call.repository, _branch(name), sha, actor=call.actor, force=force)
    return Answer(_shown(call, name))


@routes.repository("DELETE", "/git/refs/{ref}", _WRITE, role="write", docs="#delete-a-reference")
def delete_ref(call: Call) -> Answer:
    """Removes a branch."""
    call.github.refs.delete(call.repository, _branch(call.params["ref"]), actor=call.actor)
    return Answer(None, 204)


def _branch(name: str) -> str:
    """The sandbox has branches only: no tags are written, and `refs/pull` is GitHub's own."""
    if not name.startswith("heads/"):
        raise Refusal(422, "Reference update failed")
    return name.removeprefix("heads/")


def _shown(call: Call, name: str) -> dict[str, Any]:
    sha = call.repository.git.ref(name)
    if sha is None:
        raise not_found()
    base = f"{call.api_url}/repos/{call.repository.full_name}/git"
    return {
        "ref": f"refs/{name}",
        "node_id": f"REF_{call.repository.id}_{name}",
        "url": f"{base}/refs/{name}",
        "object": {"sha": sha, "type": "commit", "url": f"{base}/commits/{sha}"},
    }
