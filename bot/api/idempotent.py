"""`Idempotency-Key` on writing calls: a repeated call does nothing, and gets the first answer.

An answer is stored by `settle` in the transaction of the work, or, where the work is not one transaction, after it.
What the caller may try again as it is (5xx, 408, 429), and what raised, is not stored: the key is free again.
"""

import hashlib
import json
import re
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bot.api.auth import READING, caller
from bot.api.errors import ApiError
from bot.api.payload import receive
from bot.api.permissions import Budget
from queue_engine.core.concurrency.lease import kept
from queue_engine.core.jobs.idempotency import KeyConflict, KeyHeld, KeyReply, NewKey
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.api")

SCOPE = "api"
"""What calls of the API are counted under; the scope of a key is the caller's token."""

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_PASSING = frozenset({408, 429})
_ENDPOINT = 255
_DELIVERY = 40
_ASK_AGAIN = timedelta(seconds=5)
"""Calls end within seconds: a caller that waits for one need not wait for the end of its lease."""


@dataclass(slots=True)
class _Call:
    """A writing call under way: the key that it has, if it came with one, and whether its answer is stored."""

    new: NewKey | None
    settled: bool = False


_CALL: web.RequestKey[_Call] = web.RequestKey("call", _Call)


async def settle(request: web.Request, tx: Transaction, body: Any, *, status: int = 200) -> web.Response:
    """The answer of a call whose work is this transaction: stored with it, or not at all. Raises KeyLost.

    Return it when the transaction has been committed.
    """
    call = request[_CALL]
    if call.new is not None:
        await tx.keys.finish(call.new, status=status, body=body)
        call.settled = True
    return _response(status, body)


def delivery_of(request: web.Request) -> str | None:
    """What the work of a keyed call is known by where it is stored, so that a repetition finds it done."""
    new = request[_CALL].new
    if new is None:
        return None
    return f"{SCOPE}:{hashlib.sha256(f'{new.scope} {new.key}'.encode()).hexdigest()[:_DELIVERY]}"


def idempotency(engine: Engine) -> Middleware:
    """Begins the key of a writing call, and lets it through once. Comes after the authentication.

    Each key is stored for days, whatever its call comes to: so a caller may use only so many.
    """
    budget = Budget(engine.clock)

    @web.middleware
    async def idempotent(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in READING or request.match_info.http_exception is not None:
            return await handler(request)
        key = _key(request)
        body = await receive(request)
        if key is None:
            request[_CALL] = _Call(None)
            return await handler(request)
        budget.spend(caller(request))
        begun = await _begin(engine, request, key, body)
        if isinstance(begun, KeyReply):
            return _response(begun.status, begun.body, {"Idempotency-Replayed": "true"})
        request[_CALL] = _Call(begun)
        return await _run(engine, request, begun, handler)

    return idempotent


async def _begin(engine: Engine, request: web.Request, key: str, body: bytes) -> NewKey | KeyReply:
    endpoint = f"{request.method} {request.path_qs}"
    if len(endpoint) > _ENDPOINT:
        raise ApiError(414, "the address is too long")
    async with engine.store.transaction() as tx:
        begun = await tx.keys.begin(
            caller(request).id,
            key,
            endpoint=endpoint,
            request_hash=hashlib.sha256(body).hexdigest(),
            now=engine.clock.now(),
            lease=engine.lease,
        )
    match begun:
        case NewKey():
            engine.meter.count("requests_keyed", scope=SCOPE)
        case KeyReply():
            engine.meter.count("duplicates", scope=SCOPE)
        case KeyHeld(retry_after):
            engine.meter.count("duplicates", scope=SCOPE)
            wait = min(retry_after, _ASK_AGAIN)
            raise ApiError(409, "the call with this Idempotency-Key is still running", retry_after=wait)
        case KeyConflict():
            raise ApiError(409, "this Idempotency-Key was used for another address or body")
    return begun


async def _run(engine: Engine, request: web.Request, new: NewKey, handler: Handler) -> web.StreamResponse:
    async def renew(until: datetime) -> bool:
        async with engine.store.transaction() as tx:
            return await tx.keys.renew(new, until)

    try:
        async with kept(engine.clock, engine.lease, renew):
            response = await _answer(request, handler)
        if not request[_CALL].settled and not _passing(response.status):
            async with engine.store.transaction() as tx:
                await tx.keys.finish(new, status=response.status, body=_content(response))
            request[_CALL].settled = True
    except Exception:
        await _abandon(engine, new)
        raise
    if not request[_CALL].settled:
        await _abandon(engine, new)
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """A refusal is an answer too: the same call again would be refused again."""
    try:
        return await handler(request)
    except ApiError as error:
        # A transaction that it was raised in has been rolled back, with any other answer.
        request[_CALL].settled = False
        return error.answer()


async def _abandon(engine: Engine, new: NewKey) -> None:
    """Free the key, if its answer is not stored after all. While the database is away its lease ends by itself."""
    try:
        async with engine.store.transaction() as tx:
            await tx.keys.abandon(new)
    except Exception as error:
        _log.warning("idempotency_key_not_freed", error=repr(error))


def _key(request: web.Request) -> str | None:
    given = request.headers.getall("Idempotency-Key", [])
    if len(given) > 1:
        raise ApiError(400, "send the Idempotency-Key header only once")
    if given and not _KEY.fullmatch(given[0]):
        raise ApiError(400, "the Idempotency-Key must be 1 to 255 visible ASCII characters, such as a UUID")
    return given[0] if given else None


def _passing(status: int) -> bool:
    return status >= 500 or status in _PASSING


def _content(response: web.StreamResponse) -> Any:
    with suppress(ValueError):
        return json.loads(response.text or "") if isinstance(response, web.Response) else None
    return None


def _response(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    if body is None:
        return web.Response(status=status, headers=headers)
    return web.json_response(body, status=status, headers=headers)
