"""Store what IMQ's own writes prove: GitHub's answers to them are newer than any read."""

from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.known_facts import KnownName, MergeResult, OwnLabel, of_commit, of_pull
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts, MergeState, PendingMerge
from queue_engine.known.facts import KnownFacts
from queue_engine.known.forwarding import Forwarding


class OwnWrites(Forwarding):
    """Merges and labels. Part of `GitHubReads`."""

    def __init__(self, github: GitHubPorts, facts: KnownFacts) -> None:
        super().__init__(github)
        self._facts = facts

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
        """Merge, and store GitHub's answer as a fact."""
        landed = await self._github.merge(repository, number, head_sha, method, title=title, body=body)
        await self._record_landed(repository, number, landed)
        return landed

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
        """Request a merge, and store the commit if GitHub has merged already."""
        pending = await self._github.merge_in_background(repository, number, head_sha, method, title=title, body=body)
        return await self._with_landed(repository, number, pending)

    async def pending_merge(self, repository: Repository, number: int, uuid: str) -> PendingMerge:
        """Read a merge, and store the commit once GitHub has merged."""
        return await self._with_landed(repository, number, await self._github.pending_merge(repository, number, uuid))

    async def _with_landed(self, repository: Repository, number: int, pending: PendingMerge) -> PendingMerge:
        if pending.state is MergeState.MERGED and pending.sha is not None:
            await self._record_landed(repository, number, pending.sha)
        return pending

    async def _record_landed(self, repository: Repository, number: int, landed: str) -> None:
        await self._facts.record(
            repository.id, {of_pull(number): MergeResult(sha=landed), of_commit(landed): KnownName()}
        )

    async def add_label(self, repository: Repository, number: int, label: str) -> None:
        """Set a label, and store that as a fact."""
        await self._github.add_label(repository, number, label)
        await self._facts.record(repository.id, {of_pull(number): OwnLabel(label=label, label_set=True)})

    async def remove_label(self, repository: Repository, number: int, label: str) -> None:
        """Remove a label, and store that as a fact."""
        await self._github.remove_label(repository, number, label)
        await self._facts.record(repository.id, {of_pull(number): OwnLabel(label=label, label_set=False)})
