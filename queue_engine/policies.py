"""Whose rules hold where: the policy of each base branch, as the operator and its repository's own file make it."""

from typing import Protocol

from queue_engine.door import may_queue
from queue_engine.facts import Permission
from queue_engine.model import Repository
from queue_engine.policy import Policy


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


class Fixed:
    """One policy for all: an installation whose repositories have no rules of their own, or a test."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy

    async def of(self, repository: Repository, base_branch: str) -> Policy:
        """The one policy."""
        return self._policy

    async def labels(self, repository: Repository) -> tuple[str, ...]:
        """Its trigger labels."""
        return self._policy.trigger_labels

    async def admit_readers(self, repository: Repository, login: str) -> bool:
        """Whether the one policy lets them."""
        return may_queue(self._policy, login, Permission.READ) is None

    def remembers(self, repository_id: int, base_branch: str) -> bool:
        """No branch has anything of its own."""
        return False

    def forget(self, repository_id: int) -> None:
        """There is nothing to forget."""
