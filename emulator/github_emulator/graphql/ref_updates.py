"""The mutation `updateRefs`: several branches moved at once, all or none.

Source: GitHub's reference of `UpdateRefs` and `RefUpdate`: "All updates are performed atomically, meaning that if one
of them is rejected, no other ref will be modified." Forty zeros as `beforeOid` mean that the branch must not exist, as
`afterOid` that it is deleted.
"""

from dataclasses import dataclass
from typing import Any

from github_emulator.callers.tokens import Caller
from github_emulator.callers.visibility import visible
from github_emulator.core.errors import Invalid
from github_emulator.facade.github import GitHub
from github_emulator.graphql.errors import not_found
from github_emulator.payloads import node_id
from github_emulator.state import ZERO_SHA, Actor, Repository


@dataclass(frozen=True, slots=True)
class _Update:
    branch: str
    before: str | None
    after: str | None
    force: bool


def update_refs(github: GitHub, caller: Caller, actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """Check every update, then make them all. Raises ApiError, or Refused for an unknown repository."""
    repository = repository_of(github, caller, given["repositoryId"])
    names_moved_refs = github.behaviour.names_moved_refs
    updates = [_read(repository, one, names_moved_refs=names_moved_refs) for one in given["refUpdates"]]
    if len({update.branch for update in updates}) < len(updates):
        raise Invalid("A ref is named twice")
    for update in updates:
        github.refs.check(repository, update.branch, update.after, actor=actor, force=update.force)
    for update in updates:
        if update.before != update.after:
            github.refs.move(repository, update.branch, update.after, actor=actor)
    return {"clientMutationId": given.get("clientMutationId")}


def repository_of(github: GitHub, caller: Caller, wanted: str) -> Repository:
    """The repository of this id, as far as the caller may know of it."""
    for repository in github.state.repositories.values():
        if node_id("Repository", repository.id) == wanted and visible(github, caller, repository):
            return repository
    raise not_found(f"node with the global id of '{wanted}'")


def _read(repository: Repository, given: dict[str, Any], *, names_moved_refs: bool) -> _Update:
    name, expected, after = given["name"], given.get("beforeOid"), given["afterOid"]
    if not name.startswith("refs/heads/"):
        raise Invalid(f"Invalid ref name: {name}")
    branch = name.removeprefix("refs/heads/")
    before = repository.git.branch(branch)
    if expected is not None and expected != (before or ZERO_SHA):
        where = f": {name} is at {before or ZERO_SHA} but expected {expected}" if names_moved_refs else ""
        raise Invalid(f"Ref cannot be updated{where}")
    return _Update(branch, before, None if after == ZERO_SHA else after, bool(given.get("force")))
