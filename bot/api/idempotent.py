"""`Idempotency-Key` on writing calls: a repeated call does nothing, and gets the first answer.

`finish_call` stores the answer in the transaction of the work; where the work is not one transaction, the middleware
stores it afterwards. Answers that a caller may retry (5xx, 408, 429) and exceptions are not stored: they free the key.
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

from bot.api.api_errors import ApiError
from bot.api.auth import READING, caller
from bot.api.payload import receive
from bot.api.permissions import Budget
from queue_engine.core.concurrency.tasks import kept
from queue_engine.core.jobs.idempotency import KeyConflict, KeyHeld, KeyReply, NewKey
from queue_engine.effects.context import Engine
from queue_engine.store import Transaction

_log = structlog.get_logger("imq.api")

SCOPE = "api"
"""The label of the API's calls in metrics; the scope of a key is the caller's token."""

_KEY = re.compile(r"[\x21-\x7e]{1,255}")
_NO_KEY = (
    "this call needs the header Idempotency-Key: a new UUID for each operation, as `uuidgen` makes it; "
    "send the same one again only to repeat the same call"
)
_TRANSIENT = frozenset({408, 429})
_MAX_ENDPOINT, _LONGEST_ADDRESS = 255, 2_000
_DIGEST_LENGTH = 40
_LONGEST_RETRY_AFTER = timedelta(seconds=5)
"""Calls end within seconds, so a caller may retry long before the lease of the running call ends."""


@dataclass(slots=True)
class _Call:
    """A writing call in progress: its key, if it has one, and whether its answer is stored."""

    key: NewKey | None
    finished: bool = False


_CALL: web.RequestKey[_Call] = web.RequestKey("call", _Call)


async def finish_call(request: web.Request, tx: Transaction, body: Any, *, status: int = 200) -> web.Response:
    """Store the answer of a call in the transaction of its work, and return it as a response. Raises KeyLost.

    Send the response only after the commit.
    """
    call = request[_CALL]
    if call.key is not None:
        await tx.keys.finish(call.key, status=status, body=body)
        call.finished = True
    return _response(status, body)


def delivery_id(request: web.Request) -> str | None:
    """Return an id of the call's key, under which the engine finds work that is done; None without a key."""
    key = request[_CALL].key
    if key is None:
        return None
    return f"{SCOPE}:{hashlib.sha256(f'{key.scope} {key.key}'.encode()).hexdigest()[:_DIGEST_LENGTH]}"


def idempotency(engine: Engine, *, required: bool = True) -> Middleware:
    """Create the middleware that runs a writing call with a key once. It comes after the authentication.

    With `required` it refuses writing calls without a key, by 400 as the draft says.

    Each key is stored for days, so the number of keys of a caller is limited.
    """
    budget = Budget(engine.clock)

    @web.middleware
    async def idempotent(request: web.Request, handler: Handler) -> web.StreamResponse:
        if request.method in READING or request.match_info.http_exception is not None:
            return await handler(request)
        key = _key_header(request)
        body = await receive(request)
        if key is None and required:
            raise _missing()
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
    if len(endpoint) > _LONGEST_ADDRESS:
        raise ApiError(414, "the address is too long")
    if len(endpoint) > _MAX_ENDPOINT:
        # Names of branches may be long; their digest distinguishes them as well.
        endpoint = f"{request.method} sha256:{hashlib.sha256(endpoint.encode()).hexdigest()}"
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
            wait = min(retry_after, _LONGEST_RETRY_AFTER)
            raise ApiError(409, "the call with this Idempotency-Key is still running", retry_after=wait)
        case KeyConflict():
            raise ApiError(409, "this Idempotency-Key was used for another address or body")
    return begun


async def _run(engine: Engine, request: web.Request, key: NewKey, handler: Handler) -> web.StreamResponse:
    async def renew(until: datetime) -> bool:
        return await engine.store.write(lambda tx: tx.keys.renew(key, until))

    try:
        async with kept(engine.clock, engine.lease, renew):
            response = await _answer(request, handler)
        if not request[_CALL].finished and not (response.status >= 500 or response.status in _TRANSIENT):
            await engine.store.write(lambda tx: tx.keys.finish(key, status=response.status, body=_content(response)))
            request[_CALL].finished = True
    except Exception:
        await _abandon(engine, key)
        raise
    if not request[_CALL].finished:
        await _abandon(engine, key)
    return response


async def _answer(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Call the handler; an ApiError is an answer to store, too."""
    try:
        return await handler(request)
    except ApiError as error:
        # The transaction that raised it was rolled back, and with it any answer.
        request[_CALL].finished = False
        return error.answer()


async def _abandon(engine: Engine, key: NewKey) -> None:
    """Free the key of a call whose answer is not stored. If the database is down, the key's lease expires."""
    try:
        await engine.store.write(lambda tx: tx.keys.abandon(key))
    except Exception as error:
        _log.warning("idempotency_key_not_freed", error=repr(error))


def _missing() -> ApiError:
    """Return the error for a writing call without a key.

    The status is that of draft-ietf-httpapi-idempotency-key-header-07, which asks for a link to what is expected; the
    documentation of Upvest and of labstack's echo have the same status.
    """
    link = '</api/v1/openapi.json>; rel="describedby"; type="application/json"'
    return ApiError(400, _NO_KEY, headers={"Link": link}, reason="idempotency_key_missing")


def _key_header(request: web.Request) -> str | None:
    given = request.headers.getall("Idempotency-Key", [])
    if len(given) > 1:
        raise ApiError(400, "send the Idempotency-Key header only once")
    if given and not _KEY.fullmatch(given[0]):
        raise ApiError(400, "the Idempotency-Key must be 1 to 255 visible ASCII characters, such as a UUID")
    return given[0] if given else None


def _content(response: web.StreamResponse) -> Any:
    with suppress(ValueError):
        return json.loads(response.text or "") if isinstance(response, web.Response) else None
    return None


def _response(status: int, body: Any, headers: dict[str, str] | None = None) -> web.Response:
    if body is None:
        return web.Response(status=status, headers=headers)
    return web.json_response(body, status=status, headers=headers)
