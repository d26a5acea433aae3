"""Where repositories are found.

The old path keeps leading to the repository, by its id, until another one takes the name ("Renaming a repository" in
GitHub's documentation).
"""

from github_emulator.core.errors import Invalid
from github_emulator.state import Repository, State


class RepositoryPaths:
    """Finds repositories by the names that they had before, and gives them new ones."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._moved: dict[str, Repository] = {}
        """By lower-case full name that it had before."""

    def found_at(self, full_name: str) -> Repository | None:
        """The repository that had this name before, if no other one has it now."""
        if full_name.lower() in self._state.repositories:
            return None
        return self._moved.get(full_name.lower())

    def move(self, repository: Repository, full_name: str) -> None:
        """Let a repository be found under this name, and redirect its old one. Raises Invalid when that is taken."""
        repositories = self._state.repositories
        if full_name.lower() in repositories:
            raise Invalid("The repository name already exists on this account")
        old = repository.full_name.lower()
        del repositories[old]
        self._moved[old] = repositories[full_name.lower()] = repository
