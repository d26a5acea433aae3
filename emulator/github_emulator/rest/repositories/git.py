"""Endpoints of git itself: commits, references and trees."""

from typing import Any

from github_emulator import payloads
from github_emulator.callers.errors import Refusal, not_found
from github_emulator.domain.refs.refs import Refs
from github_emulator.domain.refs.tags import OwnRefs, Tags
from github_emulator.rest.answer import Answer
from github_emulator.rest.call import Call
from github_emulator.rest.routing import Routes

routes = Routes("git/refs")
_WRITE = "contents=write"


@routes.repository("GET", "/git/commits/{commit_sha}", "contents=read", docs="git/commits#get-a-commit-object")
def get_commit(call: Call) -> Answer:
    """A commit as git knows it."""
    commit = call.repository.git.commit(call.params["commit_sha"])
    if commit is None:
        raise not_found()
    return Answer(payloads.git_commit(call.github.source, call.repository, commit))


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
            # A submodule has no address: its commit is in another repository (github/rest-api-description #3833).
            **({"url": f"{base}/{entry.type}s/{entry.sha}"} if entry.type != "commit" else {}),
            **({"size": entry.size} if entry.size is not None else {}),
        }
        for entry in entries
    ]
    most = call.github.behaviour.most_tree_entries
    return {"sha": tree_sha, "url": f"{base}/trees/{tree_sha}", "tree": tree[:most], "truncated": len(tree) > most}


@routes.repository("GET", "/git/ref/{ref}", "contents=read", docs="#get-a-reference")
def get_ref(call: Call) -> Answer:
    """What a reference such as `heads/main` points at."""
    return Answer(_shown(call, call.params["ref"]))


@routes.repository("GET", "/git/matching-refs/{ref}", "contents=read", docs="#list-matching-references")
def matching_refs(call: Call) -> Answer:
    """The references that start like this, of every folder."""
    start = call.params["ref"]
    return Answer([_shown(call, name) for name in call.repository.git.refs() if name.startswith(start)])


@routes.repository("POST", "/git/refs", _WRITE, role="write", docs="#create-a-reference")
def create_ref(call: Call) -> Answer:
    """A new branch at an existing commit, or a new tag."""
    ref, sha = call.take("ref", str), call.take("sha", str)
    if not ref.startswith("refs/") or ref.count("/") < 2:
        raise Refusal(422, "Reference name must start with 'refs/' and contain at least two slashes.")
    verbs, name = _verbs(call, ref.removeprefix("refs/"))
    keeps_all = call.github.behaviour.unreachable_commits_kept or verbs is not call.github.refs
    if not keeps_all and not _is_reachable(call, sha):
        raise Refusal(422, "Object does not exist")
    verbs.create(call.repository, name, sha, actor=call.actor)
    return Answer(_shown(call, ref.removeprefix("refs/")), 201)


@routes.repository("PATCH", "/git/refs/{ref}", _WRITE, role="write", docs="#update-a-reference")
def update_ref(call: Call) -> Answer:
    """Moves a branch or a tag; only forward unless forced."""
    sha, force = call.take("sha", str), call.take("force", bool, False)
    verbs, name = _verbs(call, call.params["ref"])
    verbs.update(call.repository, name, sha, actor=call.actor, force=force)
    return Answer(_shown(call, call.params["ref"]))


@routes.repository("DELETE", "/git/refs/{ref}", _WRITE, role="write", docs="#delete-a-reference")
def delete_ref(call: Call) -> Answer:
    """Removes a branch or a tag."""
    verbs, name = _verbs(call, call.params["ref"])
    verbs.delete(call.repository, name, actor=call.actor)
    return Answer(None, 204)


def _is_reachable(call: Call, sha: str) -> bool:
    """Whether a branch contains this commit."""
    git = call.repository.git
    tips = (git.branch(name) for name in git.branches())
    return any(tip is not None and (tip == sha or git.is_ancestor(sha, tip)) for tip in tips)


def _verbs(call: Call, ref: str) -> tuple[Refs | Tags | OwnRefs, str]:
    """Who changes a reference, and its name there."""
    kind, _, name = ref.partition("/")
    match kind:
        case "heads":
            return call.github.refs, name
        case "tags":
            return call.github.tags, name
    return call.github.own_refs, ref


def _shown(call: Call, name: str) -> dict[str, Any]:
    git = call.repository.git
    sha = git.ref(name)
    if sha is None:
        raise not_found()
    base = f"{call.api_url}/repos/{call.repository.full_name}/git"
    kind = git.object_type(sha) or "commit"
    return {
        "ref": f"refs/{name}",
        "node_id": f"REF_{call.repository.id}_{name}",
        "url": f"{base}/refs/{name}",
        "object": {"sha": sha, "type": kind, "url": f"{base}/{kind}s/{sha}"},
    }
