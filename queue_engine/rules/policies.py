"""The port that loads the policy of each base branch, from the operator's settings and the repository's file."""

from collections.abc import Collection, Sequence
from typing import Protocol

from queue_engine.config.model import Policy
from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Mode

PolicyKey = tuple[Repository, str, tuple[int, int]]
"""A base branch, and the generations of its configuration: the repository's, and that of its owner's shared file."""


class Policies(Protocol):
    """Loads the policy of a base branch. Call it before a transaction, never within one: it may read from GitHub."""

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        """Return the policy of this base branch, with a `fault` if invalid. Raises GitHubError if it must be read."""
        ...

    def cached(self, repository: Repository, base_branch: str, generations: tuple[int, int]) -> Policy | None:
        """Return what `of` would, if it has to read nothing; else None. May be called within a transaction.

        The members of teams are missing: with them IMQ judges people, and not waits.

        `generations` count the changes of the repository's configuration, and of the configuration that its owner
        shares, both as the transaction reads them.
        """
        ...

    async def recall(self, wanted: Sequence[PolicyKey]) -> Collection[PolicyKey]:
        """Cache these policies as far as that needs no request; return those that `cached` returns now."""
        ...

    async def read_ahead(self, repositories: Sequence[Repository]) -> None:
        """Read the configurations on the default branches of one installation's repositories by few requests.

        What GitHub does not show so is read when it is needed. Raises RateLimitError.
        """
        ...

    async def mode(self, repository: Repository) -> Mode | None:
        """Return the mode by the default branch; None if a faulty file names none. Raises GitHubError as `of`."""
        ...

    async def labels(self, repository: Repository) -> tuple[str, ...]:
        """Return the trigger labels of all branches, by the default branch. Raises GitHubError as `of`."""
        ...

    async def testing_labels(self, repository: Repository) -> tuple[str, ...]:
        """Return the testing labels of branches with queue-only checks, by the same. Raises GitHubError as `of`."""
        ...

    async def admit_readers(self, repository: Repository, login: str) -> bool:
        """Whether a reader may queue on some branch, by the default branch. Raises GitHubError as `of`."""
        ...

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        """Whether this process has cached a file of this branch, or that the branch has none."""
        ...

    def forget(self, repository_id: int) -> None:
        """Drop this process's cache of this repository, after a webhook of a change."""
        ...
