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
    ref: str
    """The name without `refs/`."""
    before: str | None
    after: str | None
    force: bool

    @property
    def branch(self) -> str | None:
        """The branch, if it is one."""
        return self.ref.removeprefix("heads/") if self.ref.startswith("heads/") else None


def update_refs(github: GitHub, caller: Caller, actor: Actor, given: dict[str, Any]) -> dict[str, Any]:
    """Check every update, then make them all. Raises ApiError, or Refused for an unknown repository."""
    repository = repository_of(github, caller, given["repositoryId"])
    updates = [_read(github, repository, one) for one in given["refUpdates"]]
    if len({update.ref for update in updates}) < len(updates):
        raise Invalid("A ref is named twice")
    for update in updates:
        if update.branch is not None:
            github.refs.check(repository, update.branch, update.after, actor=actor, force=update.force)
    for update in updates:
        if update.branch is None:
            _set_own(github, repository, update, actor)
        elif update.before != update.after:
            github.refs.move(repository, update.branch, update.after, actor=actor)
    return {"clientMutationId": given.get("clientMutationId")}


def _set_own(github: GitHub, repository: Repository, update: _Update, actor: Actor) -> None:
    if update.after is None:
        github.own_refs.delete(repository, update.ref, actor=actor)
    elif update.before is None:
        github.own_refs.create(repository, update.ref, update.after, actor=actor)
    else:
        github.own_refs.update(repository, update.ref, update.after, actor=actor, force=update.force)


def repository_of(github: GitHub, caller: Caller, wanted: str) -> Repository:
    """The repository of this id, as far as the caller may know of it."""
    for repository in github.state.repositories.values():
        if node_id("Repository", repository.id) == wanted and visible(github, caller, repository):
            return repository
    raise not_found(f"node with the global id of '{wanted}'")


def _read(github: GitHub, repository: Repository, given: dict[str, Any]) -> _Update:
    name, expected, after = given["name"], given.get("beforeOid"), given["afterOid"]
    ref, behaviour = name.removeprefix("refs/"), github.behaviour
    own = not ref.startswith(("heads/", "tags/", "pull/"))
    if not (ref.startswith("heads/") or (own and name.count("/") > 1 and behaviour.own_refs == "all")):
        raise Invalid(f"Invalid ref name: {name}")
    before = repository.git.ref(ref)
    if expected is not None and expected != (before or ZERO_SHA):
        where = f": {name} is at {before or ZERO_SHA} but expected {expected}" if behaviour.names_moved_refs else ""
        raise Invalid(f"Ref cannot be updated{where}")
    if own and before is None and after == ZERO_SHA:
        raise Invalid("Reference does not exist")
    return _Update(ref, before, None if after == ZERO_SHA else after, bool(given.get("force")))
