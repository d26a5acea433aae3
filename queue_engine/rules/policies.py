"""The policy of each base branch, made of the operator's settings and the repository's file."""

from typing import Protocol

from queue_engine.domain.model import Repository
from queue_engine.domain.policy import Policy


class Policies(Protocol):
    """Answers for every base branch. Asked before a transaction, never within one: the answer may come from GitHub."""

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        """The policy of this base branch. A configuration that cannot be used makes a policy with a `fault`.

        Raises GitHubError when it is not known and cannot be read now.
        """
        ...

    async def labels(self, repository: Repository) -> tuple[str, ...]:
        """Every trigger label of this repository, whatever the branch, as its default branch's configuration has them.

        Raises GitHubError as `of` does.
        """
        ...

    async def admit_readers(self, repository: Repository, login: str) -> bool:
        """Whether this person may queue on some branch with read access alone.

        The default branch's configuration tells. Raises GitHubError as `of` does.
        """
        ...

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        """Whether this process goes by something that it read on this branch, or did not find there."""
        ...

    def forget(self, repository_id: int) -> None:
        """Drop what this process remembers of this repository: a webhook says that it changed."""
        ...
