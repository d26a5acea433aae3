"""Repositories that are renamed, transferred to another owner, or archived.

Transferred: the old owner's installation loses it, the new owner's sees it if it sees all
(polarsource/polar #1207).
"""

from typing import Any

from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.domain.accounts.repository_paths import RepositoryPaths
from github_emulator.events.context import Context
from github_emulator.events.events import RepositoryChanged, RepositorySelectionChanged
from github_emulator.state import Actor, Repository


class RepositoryChanges:
    """Changes where a repository is found, and whether it can be written."""

    def __init__(self, context: Context, *, accounts: Accounts, paths: RepositoryPaths) -> None:
        self._context = context
        self._events = context.events
        self._accounts = accounts
        self._paths = paths

    def rename(self, repository: Repository, name: str, *, actor: Actor) -> None:
        """Give it another name. Raises Invalid when the owner has one of that name."""
        self._accounts.require_role(actor, repository, "admin")
        before = repository.name
        self._paths.move(repository, f"{repository.owner.login}/{name}")
        repository.name = name
        changes: dict[str, Any] = {"repository": {"name": {"from": before}}}
        self._events.publish(RepositoryChanged(repository, actor, "renamed", details={"changes": changes}))

    def transfer(self, repository: Repository, owner: str, *, actor: Actor) -> None:
        """Give it to another owner. Raises Invalid when that one has one of its name."""
        self._accounts.require_role(actor, repository, "admin")
        account, former = self._accounts.user_or_new(owner), repository.owner
        before = list(self._context.state.installations_of(repository))
        self._paths.move(repository, f"{account.login}/{repository.name}")
        repository.owner = account
        for installation in before:
            self._events.publish(RepositorySelectionChanged(installation, [], [repository]))
        for installation in self._context.state.installations_of(repository):
            self._events.publish(RepositorySelectionChanged(installation, [repository], []))
        self._events.publish(RepositoryChanged(repository, actor, "transferred", former_owner=former))

    def set_private(self, repository: Repository, private: bool, *, actor: Actor) -> None:
        """Hide it, or show it to everybody ("Webhook events": repository, `privatized` and `publicized`)."""
        self._accounts.require_role(actor, repository, "admin")
        repository.private = private
        self._events.publish(RepositoryChanged(repository, actor, "privatized" if private else "publicized"))

    def archive(self, repository: Repository, *, actor: Actor, archived: bool = True) -> None:
        """Make it read-only, or end that."""
        self._accounts.require_role(actor, repository, "admin")
        repository.archived = archived
        self._events.publish(RepositoryChanged(repository, actor, "archived" if archived else "unarchived"))
