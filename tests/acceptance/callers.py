"""Callers of the API: people with a token, on one world."""

from dataclasses import dataclass
from typing import Any
from uuid import uuid4

import aiohttp

from queue_engine.store.tokens import TokenPolicy
from tests.acceptance.world import World

FRESH = "a fresh one"
"""In place of a key: the call has a new one of its own."""


@dataclass
class Answer:
    """What a caller got."""

    status: int
    body: Any
    headers: Any


@dataclass
class Caller:
    """Somebody with a token, on one world."""

    world: World
    session: aiohttp.ClientSession
    token: str | None
    address: str = ""
    """The client's address, as a trusted proxy names it; empty without a proxy."""

    async def ask(self, method: str, path: str, *, body: Any = None, key: str | None = FRESH) -> Answer:
        headers = self._headers(method, key)
        url = f"http://127.0.0.1:{self.world.runner.addresses[0][1]}{path}"
        async with self.session.request(method, url, json=body, headers=headers) as response:
            return Answer(response.status, await response.json(), response.headers)

    async def read(self, path: str) -> tuple[int, str, dict[str, str]]:
        """The whole of an answer to a reading call, as it came."""
        return await self.send("GET", path)

    async def send(self, method: str, path: str, body: Any = None) -> tuple[int, str, dict[str, str]]:
        """Status, text and headers of an answer; the headers without those that tell time and length."""
        headers = self._headers(method, FRESH)
        url = f"http://127.0.0.1:{self.world.runner.addresses[0][1]}{path}"
        async with self.session.request(method, url, json=body, headers=headers) as response:
            stable = {name: value for name, value in response.headers.items() if name not in {"Date", "Content-Length"}}
            return response.status, await response.text(), stable

    async def queue(self, pull: Any, *, key: str | None = FRESH, **body: Any) -> Answer:
        return await self.ask("POST", path_of(pull), body=body or None, key=key)

    def _headers(self, method: str, key: str | None) -> dict[str, str]:
        """A writing call has a key, unless it is to have none."""
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        if self.address:
            headers["X-Forwarded-For"] = self.address
        if method != "GET" and key is not None:
            headers["Idempotency-Key"] = str(uuid4()) if key == FRESH else key
        return headers

    async def leave(self, pull: Any) -> Answer:
        return await self.ask("DELETE", path_of(pull))


def path_of(pull: Any, repository: str = "acme/widgets") -> str:
    """Where a pull request is queued."""
    number = pull if isinstance(pull, int) else pull.number
    return f"/api/v1/repositories/{repository}/pulls/{number}/queue"


async def caller(
    world: World, session: aiohttp.ClientSession, login: str | None = "mona", *, name: str | None = None, **grant: Any
) -> Caller:
    """A caller with a token for this person, or with whatever else is granted."""
    person_id = None if login is None else world.github.state.users[login].id
    wanted = TokenPolicy(login=login, person_id=person_id, **grant)
    async with world.bot.engine.store.transaction() as tx:
        token = await tx.tokens.create(name or f"for {login}", wanted, now=world.clock.now())
    assert token is not None
    return Caller(world, session, token)
