"""Answer the engine's questions for permissions of tokens that belong to no person.

The engine asks for the right of the person who queued a pull request once more before it merges. A token's right is the
operator's to give, and ends with the token: what a revoked token queued does not land.
"""

from dataclasses import replace

from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import Permission, Snapshot
from queue_engine.domain.model import Repository
from queue_engine.domain.port import GitHubPorts
from queue_engine.known.forwarding import Forwarding
from queue_engine.store import Store
from queue_engine.store.operations.tokens import service_name


class TokenPermissions(Forwarding):
    """GitHub, but for the permissions of tokens."""

    def __init__(self, github: GitHubPorts, store: Store, clock: Clock) -> None:
        super().__init__(github)
        self._store = store
        self._clock = clock

    async def permission(self, repository: Repository, login: str) -> Permission:
        """As the port says; of a token what it may do within its scope."""
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
        """As the port says; GitHub knows no token, and is not asked about one."""
        if login is None or service_name(login) is None:
            return await super().snapshot(repository, number, login=login, head_sha=head_sha)
        taken = await super().snapshot(repository, number, login=None, head_sha=head_sha)
        return replace(taken, permission=await self.permission(repository, login))
