"""Requests as programs and scripts see them, and the rights to see them."""

from collections.abc import Sequence
from datetime import datetime

from pydantic import BaseModel

from bot.api.access import Access
from bot.api.errors import ApiError
from bot.logs.secrets import mask
from bot.web.live.request_ids import RequestIds
from queue_engine.effects.context import Engine
from queue_engine.queries.requests import RequestStatus, load_request
from queue_engine.store.tokens import Token

PENDING = "pending"


class RequestAnswer(BaseModel):
    """A request and how far it is.

    `status` is `pending` while `state` is `waiting`, `processing` or `retrying`, and else the same as `state`.
    `repository` and `number` are null for work of no pull request.
    """

    id: str
    kind: str
    repository: str | None
    number: int | None
    asked: str
    asked_by: str | None
    process_id: str | None
    status: str
    state: str
    asked_at: datetime
    since: datetime | None
    attempts: int
    next_try_at: datetime | None
    error: str | None
    retryable: bool

    @classmethod
    def of(cls, request: RequestStatus, token: Token, opaque_id: str) -> "RequestAnswer":
        """Convert a request for a caller."""
        return cls(
            id=opaque_id,
            kind=request.kind,
            repository=None if request.repository is None else request.repository.full_name,
            number=request.number,
            asked=request.asked,
            asked_by=request.asked_by,
            process_id=request.process_id,
            status=PENDING if request.pending else request.state.value,
            state=request.state.value,
            asked_at=request.asked_at,
            since=request.since,
            attempts=request.attempts,
            next_try_at=request.next_try_at,
            error=shown_error(request, token),
            retryable=request.letter_id is not None,
        )


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
