"""Callers of the API: over a real socket, with tokens of their own, and with routes made for the test."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any, cast
from uuid import uuid4

import aiohttp
from aiohttp import web
from pydantic import SecretStr

from bot.api.access import Access
from bot.api.app import PREFIX, create_api
from bot.api.permissions import People
from bot.web.application import Readiness, create_app, serve
from bot.webhooks.receiver import Receiver
from queue_engine.config.model import Policy
from queue_engine.domain.port import GitHub
from queue_engine.domain.webhooks import WebhookEvent
from queue_engine.effects.context import Engine
from queue_engine.store import Store
from queue_engine.store.tokens import TokenPolicy
from tests.support.policies import StaticPolicies
from tests.support.real_time import LIMIT

NOW = datetime(2026, 1, 5, 12, tzinfo=UTC)


class Clock:
    """Time moved by hand; who sleeps wakes when it has been moved far enough."""

    def __init__(self) -> None:
        self.instant = NOW
        self._moved = asyncio.Event()

    def now(self) -> datetime:
        return self.instant

    async def sleep(self, duration: timedelta) -> None:
        end = self.instant + duration
        while self.instant < end:
            await self._moved.wait()

    def move(self, duration: timedelta) -> None:
        """Let time pass."""
        self.instant += duration
        self._moved.set()
        self._moved = asyncio.Event()


class Counts:
    """A meter that remembers what was counted, by name and scope."""

    def __init__(self) -> None:
        self.counted: Counter[tuple[str, str]] = Counter()

    def count(self, name: str, amount: float = 1, **labels: str) -> None:
        self.counted[name, labels.get("scope", "")] += int(amount)

    def observe(self, name: str, seconds: float, **labels: str) -> None:
        """Nothing is timed here."""


@dataclass(frozen=True)
class Answer:
    """What a caller got."""

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def error(self) -> str:
        """The sentence of a refusal."""
        assert self.status >= 400, self
        return str(self.body["error"])

    @property
    def replayed(self) -> bool:
        """Whether it is the answer of an earlier call."""
        return self.headers.get("Idempotency-Replayed") == "true"


FRESH = "a fresh one"
"""In place of a key: the call has a new one of its own."""


@dataclass
class ApiServer:
    """The API at work, and the callers before it."""

    engine: Engine
    clock: Clock
    meter: Counts
    session: aiohttp.ClientSession
    base: str = ""
    tokens: dict[str, str] = field(default_factory=dict)

    async def token(self, name: str, *, login: str | None = None, operator: bool = False) -> str:
        """A token of this name, made at first use."""
        if name not in self.tokens:
            async with self.engine.store.transaction() as tx:
                made = await tx.tokens.create(name, TokenPolicy(login=login, operator=operator), now=self.clock.now())
            assert made is not None
            self.tokens[name] = made
        return self.tokens[name]

    async def call(
        self,
        method: str,
        path: str,
        *,
        by: str | None = "ops",
        key: str | None = FRESH,
        headers: Any = None,
        **more: Any,
    ) -> Answer:
        """Call the API as an operator, by default."""
        sent: list[tuple[str, str]] = list((headers or {}).items() if isinstance(headers, dict) else headers or [])
        if by is not None:
            sent.append(("Authorization", f"Bearer {await self.token(by, operator=by == 'ops')}"))
        if key is not None and method not in {"GET", "HEAD", "OPTIONS"}:
            sent.append(("Idempotency-Key", str(uuid4()) if key == FRESH else key))
        async with self.session.request(method, self.base + path, headers=sent, **more) as response:
            body = await response.json() if await response.read() else None
            return Answer(response.status, body, response.headers)


Routes = Callable[[ApiServer], list[web.RouteDef]]


@asynccontextmanager
async def an_api_server(
    store: Store, routes: Routes = lambda server: [], *, keys_required: bool = True
) -> AsyncIterator[ApiServer]:
    """The API on this store, with `routes` beside its own; GitHub is not asked."""
    clock, meter = Clock(), Counts()
    engine = Engine(
        store=store,
        github=cast(GitHub, None),
        clock=clock,
        policies=StaticPolicies(Policy()),
        random=lambda: 0.5,
        owner="test",
        meter=meter,
    )
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=LIMIT)) as session:
        server = ApiServer(engine, clock, meter, session)
        api = create_api(engine, Access(engine, cast(People, None)), keys_required=keys_required)
        api.add_routes(routes(server))
        app = create_app(Receiver(secret=SecretStr("s"), own_app_id=1, store=_never, clock=clock), Readiness({}, clock))
        app.add_subapp(PREFIX, api)
        runner = await serve(app, 0, "127.0.0.1")
        server.base = f"http://127.0.0.1:{runner.addresses[0][1]}{PREFIX}"
        try:
            yield server
        finally:
            await runner.cleanup()


async def _never(_webhook_event: WebhookEvent) -> bool:
    raise AssertionError("no delivery comes here")
