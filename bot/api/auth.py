"""Authenticate callers by bearer tokens, which `imq token create` makes."""

import re
from datetime import UTC, datetime

import structlog
from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bot.api.api_errors import ApiError, errors_as_json
from queue_engine.core.database.outage import fault_of
from queue_engine.core.observability import trace
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import Permission
from queue_engine.store import Store
from queue_engine.store.tokens import Token, TokenPolicy

READING = frozenset({"GET", "HEAD", "OPTIONS"})
"""Methods of calls that change nothing."""

_log = structlog.get_logger("imq.api")

ANONYMOUS = Token("", "not logged in", TokenPolicy(access=Permission.READ), datetime.min.replace(tzinfo=UTC), None)
"""The token of those who are not logged in at a page."""

_CREDENTIALS = re.compile(r"(?i:bearer) +([\x21-\x7e]+)")
_CHALLENGE = 'Bearer realm="imq"'
_TOKEN: web.RequestKey[Token] = web.RequestKey("token", Token)


def authentication(store: Store, clock: Clock) -> Middleware:
    """Create the middleware that refuses every call without a valid token, and logs each that changes something."""

    @web.middleware
    async def authenticated(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[_TOKEN] = token = await identify(request, store, clock)
        # Only a known caller may choose the trace of a call (W3C Trace Context).
        call_trace = trace.continued(request.headers.get("traceparent"), "api call")
        with structlog.contextvars.bound_contextvars(caller=token.name), call_trace:
            if request.method not in READING and token.grant.access is Permission.READ:
                raise ApiError(403, "this token was made with `--read` and changes nothing")
            response = await handler(request)
            if request.method not in READING:
                _log.info("api_call", method=request.method, path=request.path, status=response.status)
            return response

    return authenticated


async def identify(request: web.Request, store: Store, clock: Clock) -> Token:
    """Return the token of a request, and record its use. Raises ApiError: 401, or 400 when there are several."""
    given = request.headers.getall("Authorization", [])
    if len(given) > 1:
        raise ApiError(400, "send the Authorization header only once")
    if not given:
        raise _unknown("an Authorization header is needed: Bearer, and a token made with `imq token create`")
    credentials = _CREDENTIALS.fullmatch(given[0].strip())
    if credentials is None:
        raise _unknown("send `Authorization: Bearer` and a token made with `imq token create`")
    now = clock.now()
    token = await store.read(lambda tx: tx.tokens.find(credentials[1], now))
    if token is None:
        raise _unknown("this token is unknown, expired or revoked", ', error="invalid_token"')
    if not token.noted(now):
        await _record_use(token, store, now)
    return token


async def _record_use(token: Token, store: Store, now: datetime) -> None:
    try:
        await store.write(lambda tx: tx.tokens.note_use(token, now))
    except Exception as error:
        # A caller that only reads is answered also while nothing can be written.
        if fault_of(error) is None:
            raise
        _log.warning("token_use_not_recorded", error=repr(error))


def for_operators(handler: Handler, store: Store, clock: Clock) -> Handler:
    """Wrap a handler outside of the API, so that only callers with an operator's token reach it."""

    async def authorized(request: web.Request) -> web.StreamResponse:
        request[_TOKEN] = await identify(request, store, clock)
        operator(request)
        return await handler(request)

    async def handle(request: web.Request) -> web.StreamResponse:
        return await errors_as_json(request, authorized)

    return handle


def act_as(request: web.Request, token: Token) -> None:
    """Have access checks judge a request by this token, which the caller has verified: a page's is its session's."""
    request[_TOKEN] = token


def caller(request: web.Request) -> Token:
    """Return the token of an authenticated call."""
    return request[_TOKEN]


def operator(request: web.Request) -> Token:
    """Return the token of a call, if it is an operator's. Raises ApiError 403."""
    token = caller(request)
    if not token.grant.operator:
        raise ApiError(403, "this needs a token made with `imq token create --operator`")
    return token


def _unknown(sentence: str, detail: str = "") -> ApiError:
    return ApiError(401, sentence, headers={"WWW-Authenticate": _CHALLENGE + detail})
