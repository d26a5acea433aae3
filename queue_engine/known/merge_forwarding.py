"""Forward the merges of the port, and what stacks need."""

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.merge_port import PendingMerge
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts
from queue_engine.domain.stack import StackMember


class MergeForwarding:
    """Merges and stacks. Part of `Forwarding`."""

    def __init__(self, github: GitHubPorts) -> None:
        self._github = github

    async def merge(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> str:
        """As the port says."""
        return await self._github.merge(repository, number, head_sha, method, title=title, body=body)

    async def merge_in_background(
        self,
        repository: Repository,
        number: int,
        head_sha: str,
        method: MergeMethod,
        *,
        title: str | None = None,
        body: str | None = None,
    ) -> PendingMerge:
        """As the port says."""
        return await self._github.merge_in_background(repository, number, head_sha, method, title=title, body=body)

    async def stack_members(self, repository: Repository, branch: str) -> tuple[StackMember, ...]:
        """As the port says."""
        return await self._github.stack_members(repository, branch)

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """As the port says."""
        return await self._github.pending_merge(repository, number, uuid)
