"""Repositories that are created, forked and found."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from github_emulator.core.errors import NotFound
from github_emulator.core.git import Git, Signature
from github_emulator.domain.accounts.accounts import Accounts
from github_emulator.events.context import Context
from github_emulator.state import ZERO_SHA, Repository


@dataclass(frozen=True, slots=True)
class RepositorySettings:
    """What a new repository starts with; `collaborators` are login -> role."""

    private: bool = True
    default_branch: str = "main"
    collaborators: Mapping[str, str] = field(default_factory=dict)
    allow_merge_commit: bool = True
    allow_squash_merge: bool = True
    allow_rebase_merge: bool = True


class Repositories:
    """Creates repositories, each with its git directory below one directory."""

    def __init__(self, context: Context, directory: Path, *, accounts: Accounts) -> None:
        self._context = context
        self._directory = directory
        self._accounts = accounts

    def create(self, full_name: str, files: Mapping[str, str], settings: RepositorySettings) -> Repository:
        """A repository with one commit of its owner. Owner and collaborators are created if missing."""
        login, _, name = full_name.partition("/")
        owner = self._accounts.user_or_new(login)
        people = {self._accounts.user_or_new(one).login: role for one, role in settings.collaborators.items()}
        now, branch = self._context.clock.now(), settings.default_branch
        git = Git.create(self._directory / login / f"{name}.git", branch)
        author = Signature(owner.login, owner.email, now)
        git.set_ref(f"heads/{branch}", git.write_commit(git.write_tree(None, files), (), "Start", author))
        repository = Repository(
            id=self._context.state.next_id("repository"),
            owner=owner,
            name=name,
            git=git,
            private=settings.private,
            default_branch=branch,
            created_at=now,
            updated_at=now,
            pushed_at=now,
            allow_merge_commit=settings.allow_merge_commit,
            allow_squash_merge=settings.allow_squash_merge,
            allow_rebase_merge=settings.allow_rebase_merge,
            collaborators=people,
        )
        self._context.state.repositories[full_name.lower()] = repository
        self._accounts.announce(repository)
        return repository

    def fork(self, repository: Repository, login: str) -> Repository:
        """A person's fork, created with the default branch when it is missing."""
        owner, repositories = self._accounts.user_or_new(login), self._context.state.repositories
        full_name = f"{owner.login}/{repository.name}"
        if full_name.lower() not in repositories:
            now = self._context.clock.now()
            branch = repository.default_branch
            git = repository.git.fork(owner.login)
            git.set_ref(f"heads/{branch}", repository.git.branch(branch) or ZERO_SHA)
            fork_id = self._context.state.next_id("repository")
            fork = Repository(
                fork_id, owner, repository.name, git, repository.private, branch, now, now, now, parent=repository
            )
            repositories[full_name.lower()] = fork
        return repositories[full_name.lower()]

    def find(self, full_name: str) -> Repository | None:
        """A repository by `owner/name`; None when there is none."""
        return self._context.state.repositories.get(full_name.lower())

    def must_find(self, full_name: str) -> Repository:
        """A repository by `owner/name`. Raises NotFound."""
        repository = self.find(full_name)
        if repository is None:
            raise NotFound()
        return repository
