"""Repositories that are renamed, transferred to another owner, or archived.

The old path keeps leading to the repository, by its id, until another one takes the name ("Renaming a repository" in
GitHub's documentation). Transferred: the old owner's installation loses it, the new owner's sees it if it sees all
(polarsource/polar #1207).
"""

from typing import TYPE_CHECKING, Any

from sandbox import payloads
from sandbox.errors import Invalid
from sandbox.state import Actor, Repository

if TYPE_CHECKING:
    from sandbox.github import GitHub


class Moves:
    """Changes where a repository is found, and whether it can be written."""

    def __init__(self, github: "GitHub") -> None:
        self._github = github
        self._moved: dict[str, Repository] = {}
        """By lower-case full name that it had before."""

    def found_at(self, full_name: str) -> Repository | None:
        """The repository that had this name before, if no other one has it now."""
        if full_name.lower() in self._github.state.repositories:
            return None
        return self._moved.get(full_name.lower())

    def rename(self, repository: Repository, name: str, *, actor: Actor) -> None:
        """Give it another name. Raises Invalid when the owner has one of that name."""
        self._github.require_role(actor, repository, "admin")
        before = repository.name
        self.move(repository, f"{repository.owner.login}/{name}")
        repository.name = name
        changes: dict[str, Any] = {"repository": {"name": {"from": before}}}
        self._github.happenings.repository(repository, "renamed", actor, changes=changes)

    def transfer(self, repository: Repository, owner: str, *, actor: Actor) -> None:
        """Give it to another owner. Raises Invalid when that one has one of its name."""
        self._github.require_role(actor, repository, "admin")
        account, former = self._github.accounts.user_or_new(owner), repository.owner
        before = list(self._github.state.installations_of(repository))
        self.move(repository, f"{account.login}/{repository.name}")
        repository.owner = account
        happenings = self._github.happenings
        for installation in before:
            happenings.installation_repositories(installation, [], [repository])
        for installation in self._github.state.installations_of(repository):
            happenings.installation_repositories(installation, [repository], [])
        kind = "organization" if former.kind == "Organization" else "user"
        shown = payloads.organization if kind == "organization" else payloads.user
        changes: dict[str, Any] = {"owner": {"from": {kind: shown(self._github, former)}}}
        happenings.repository(repository, "transferred", actor, changes=changes)

    def archive(self, repository: Repository, *, actor: Actor, archived: bool = True) -> None:
        """Make it read-only, or end that."""
        self._github.require_role(actor, repository, "admin")
        repository.archived = archived
        self._github.happenings.repository(repository, "archived" if archived else "unarchived", actor)

    def move(self, repository: Repository, full_name: str) -> None:
        """It is found under this name from now on, and led to from its old one. Raises Invalid when that is taken."""
        repositories = self._github.state.repositories
        if full_name.lower() in repositories:
            raise Invalid("The repository name already exists on this account")
        old = repository.full_name.lower()
        del repositories[old]
        self._moved[old] = repositories[full_name.lower()] = repository
