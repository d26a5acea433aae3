"""Requests on behalf of an installation: signed, counted, conditional, held back by limits, read into models."""

from collections import Counter
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Any, TypeVar

import aiohttp
import structlog
from cachetools import LRUCache
from pydantic import BaseModel, TypeAdapter, ValidationError

from bot.gateway.answers import TokenAnswer
from bot.gateway.client import Call, Client, Credential, Reply
from bot.gateway.limits import Limits
from bot.gateway.tokens import AppKey, Token, Tokens
from queue_engine.core import trace
from queue_engine.core.clock import Clock
from queue_engine.errors import RateLimited, Unauthorized, Unavailable

log = structlog.get_logger(__name__)

M = TypeVar("M", bound=BaseModel)

_CACHE_BYTES = 4 * 1024 * 1024
"""Per installation; a pull request's answer has about 20 kB."""
_MOST_PAGES = 100


@dataclass(frozen=True, slots=True)
class Page:
    """One page of an answer: its JSON, and the URLs of its neighbours by relation (next, prev, last)."""

    data: Any
    links: Mapping[str, str]


class Connection:
    """The App's connection to GitHub. An installation id of None means the App itself, signed by its JWT."""

    def __init__(
        self, session: aiohttp.ClientSession, *, api_url: str, app_id: str, private_key: str, clock: Clock
    ) -> None:
        self.requests: Counter[str] = Counter()
        self.requests_by_installation: Counter[int | None] = Counter()
        self.limits = Limits(clock)
        self._client = Client(session, api_url=api_url, clock=clock)
        self._key = AppKey(app_id, private_key, clock)
        self._tokens = Tokens(self._fetch_token, clock)
        # Raw replies, so that every reader gets an object of its own; never shared between installations.
        self._replies: dict[int, LRUCache[str, Reply]] = {}

    async def call(self, installation_id: int | None, call: Call, *, fresh: bool = False) -> Page:
        """Make a call; once more with a new token if GitHub refuses the old one. `fresh` keeps caches out of it."""
        if installation_id is None:
            return await self._attempt(None, call, Credential(jwt=self._key.jwt()), None)
        cache = None
        if call.method == "GET" and not fresh:
            cache = self._replies.setdefault(installation_id, _new_cache())
        token = await self._tokens.get(installation_id)
        try:
            return await self._attempt(installation_id, call, Credential(token=token), cache)
        except Unauthorized:
            self._tokens.forget(installation_id, token)
            token = await self._tokens.get(installation_id)
            return await self._attempt(installation_id, call, Credential(token=token), cache)

    async def get(
        self,
        installation_id: int | None,
        model: type[M],
        template: str,
        variables: Mapping[str, str] | None = None,
        *,
        fresh: bool = False,
    ) -> M:
        """Read one thing."""
        page = await self.call(installation_id, Call("GET", template, variables or {}), fresh=fresh)
        return understood(model, page.data)

    async def items(
        self,
        installation_id: int | None,
        model: type[M],
        template: str,
        variables: Mapping[str, str] | None = None,
        *,
        key: str | None = None,
    ) -> list[M]:
        """Read a list, all pages of it; `key` names the list where GitHub wraps it in an object."""
        call = Call("GET", template, variables or {})
        found: list[M] = []
        async for page in self.pages(installation_id, call, "next"):
            found += listed(model, page.data, key)
        return found

    async def pages(self, installation_id: int | None, call: Call, relation: str) -> AsyncIterator[Page]:
        """The pages from this call on, following `next` or `prev`. Raises Unavailable when they do not end."""
        for _ in range(_MOST_PAGES):
            page = await self.call(installation_id, call)
            yield page
            if relation not in page.links:
                return
            call = replace(call, link=page.links[relation])
        raise Unavailable(f"{call.name} has more than {_MOST_PAGES} pages")

    async def _attempt(
        self, installation_id: int | None, call: Call, credential: Credential, cache: "LRUCache[str, Reply] | None"
    ) -> Page:
        self.limits.check(installation_id)
        key = call.link or f"{call.template} {sorted(call.variables.items())}"
        cached = cache.get(key) if cache is not None else None
        self.requests[call.name] += 1
        self.requests_by_installation[installation_id] += 1
        with trace.span(call.name):
            reply = await self._client.exchange(call, credential, etag=cached.headers["etag"] if cached else None)
            log.debug("github", call=call.name, status=reply.status, installation=installation_id)
        self.limits.note(installation_id, reply.headers)
        if cached is not None and reply.status == HTTPStatus.NOT_MODIFIED:
            reply = cached
        try:
            page = Page(self._client.understand(reply), reply.links)
        except RateLimited as limited:
            self.limits.hold(installation_id, limited.retry_after)
            raise
        if cache is not None and reply.status == HTTPStatus.OK and "etag" in reply.headers:
            # Only now: a body cut off on its way would come back with every 304.
            _remember(cache, key, reply)
        return page

    async def _fetch_token(self, installation_id: int) -> Token:
        template = "/app/installations/{installation_id}/access_tokens"
        call = Call("POST", template, {"installation_id": str(installation_id)}, body={})
        answer = understood(TokenAnswer, (await self.call(None, call)).data)
        return Token(answer.token, answer.expires_at)


def understood(model: type[M], data: Any) -> M:
    """`data` as `model`. Raises Unavailable when it is not what GitHub documents."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise Unavailable(_misunderstood(model, error)) from error


def listed(model: type[M], data: Any, key: str | None = None) -> list[M]:
    """`data`, or the list under `key` in it, as a list of `model`. Raises Unavailable like `understood`."""
    items = data.get(key) if key is not None and isinstance(data, dict) else data
    try:
        return TypeAdapter(list[model]).validate_python(items)  # type: ignore[valid-type]
    except ValidationError as error:
        raise Unavailable(_misunderstood(model, error)) from error


def _misunderstood(model: type[BaseModel], error: ValidationError) -> str:
    # Only places and kinds: the values may hold secrets.
    places = ", ".join(".".join(map(str, problem["loc"])) or "answer" for problem in error.errors()[:5])
    return f"the answer is not GitHub's: {model.__name__} lacks or mistakes {places}"


def _new_cache() -> "LRUCache[str, Reply]":
    return LRUCache(_CACHE_BYTES, getsizeof=lambda reply: len(reply.body) + 1)


def _remember(cache: "LRUCache[str, Reply]", key: str, reply: Reply) -> None:
    if len(reply.body) < cache.maxsize // 4:
        cache[key] = reply
