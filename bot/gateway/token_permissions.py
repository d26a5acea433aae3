"""Answer the engine's reads of permissions for tokens that belong to no person.

Before a merge the engine reads the permission of the person who queued the pull request again. The operator grants a
token's permission, which ends with the token: a pull request that a revoked token queued does not land.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts, SnapshotRequest
from queue_engine.known.forwarding import Forwarding
from queue_engine.store import Store
from queue_engine.store.tokens import service_name


class TokenPermissions(Forwarding):
    """Forwards to GitHub, except for permissions of tokens."""

    def __init__(self, github: GitHubPorts, store: Store, clock: Clock) -> None:
        super().__init__(github)
        self._store = store
        self._clock = clock

    async def permission(self, repository: Repository, login: str) -> Permission:
        """Return the permission as the port says; that of a token by its scope."""
        if (name := service_name(login)) is None:
            return await super().permission(repository, login)
        async with self._store.reading() as tx:
            token = await tx.tokens.named(name, self._clock.now())
        if token is None or not token.grant.service or not token.grant.covers(repository):
            return Permission.NONE
        return token.grant.access

    async def snapshot(
        self, repository: Repository, number: int, *, login: str | None, head_sha: str | None = None
    ) -> Snapshot:
        """Read the snapshot as the port says, without asking GitHub about a token."""
        if login is None or service_name(login) is None:
            return await super().snapshot(repository, number, login=login, head_sha=head_sha)
        found = await super().snapshot(repository, number, login=None, head_sha=head_sha)
        return replace(found, permission=await self.permission(repository, login))

    async def snapshots(self, repository: Repository, requests: Sequence[SnapshotRequest]) -> Mapping[int, Snapshot]:
        """Read the snapshots as the port says, without asking GitHub about tokens."""
        services = {each.number: each.login for each in requests if service_name(each.login) is not None}
        asked = [replace(each, login="") if each.number in services else each for each in requests]
        found = dict(await super().snapshots(repository, asked))
        for number in found.keys() & services.keys():
            found[number] = replace(found[number], permission=await self.permission(repository, services[number]))
        return found
