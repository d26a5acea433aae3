"""Requests as programs and scripts see them, and the rights to see them."""

from collections.abc import Sequence
from dataclasses import replace

from bot.api.access import Access
from bot.api.errors import ApiError
from bot.logs.secrets import mask
from bot.web.live.request_ids import RequestIds
from queue_engine.effects.context import Engine
from queue_engine.queries.requests import RequestStatus, load_request
from queue_engine.store.tokens import Token


def shown(request: RequestStatus, token: Token, opaque_id: str) -> RequestStatus:
    """Return a request as a caller may see it, by its opaque id."""
    return replace(request, id=opaque_id, error=shown_error(request, token))


def shown_error(request: RequestStatus, token: Token) -> str | None:
    """Return the error of a request for a caller, without secrets; it may quote GitHub, so strangers do not read it."""
    if request.error is None:
        return None
    known = token.login is not None or token.grant.operator
    return mask(request.error) if known else "Log in to read the error."


class RequestAccess:
    """Decides which requests a caller may see: those of repositories that they may read, and operators all."""

    def __init__(self, engine: Engine, access: Access, ids: RequestIds) -> None:
        self.engine, self._access, self.ids = engine, access, ids

    async def visible(self, token: Token) -> frozenset[int] | None:
        """Return the ids of repositories whose requests the caller may see; None for all, and those of none."""
        if token.grant.operator:
            return None
        async with self.engine.store.reading() as tx:
            having = await tx.requests.repositories()
        return await self._access.visible(token, having, ())

    async def find(self, token: Token, sealed: str) -> RequestStatus:
        """Return the request of an opaque id. Raises ApiError 404 alike for a hidden and an unknown one."""
        found = await self.find_all(token, [sealed])
        if not found:
            raise ApiError(404, "IMQ has no such request, or you may not see it")
        return found[0]

    async def find_all(self, token: Token, sealed: Sequence[str]) -> Sequence[RequestStatus]:
        """Return the requests of those opaque ids that are known and that the caller may see."""
        ids = [each for each in map(self.ids.open, sealed) if each is not None]
        async with self.engine.store.reading() as tx:
            loaded = [await load_request(tx, each, self.engine.clock.now()) for each in ids]
        return await self._shows(token, [each for each in loaded if each is not None])

    async def _shows(self, token: Token, requests: Sequence[RequestStatus]) -> Sequence[RequestStatus]:
        if token.grant.operator:
            return requests
        repositories = {each.repository.id: each.repository for each in requests if each.repository is not None}
        visible = await self._access.visible(token, repositories.values(), ())
        return [each for each in requests if each.repository is not None and each.repository.id in visible]
