"""Readers of event streams, as a browser reads them (WHATWG HTML, section 9.2)."""

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from tests.acceptance.world import World


@dataclass
class Message:
    """One event of a stream."""

    kind: str
    data: Any
    last_id: str


@dataclass
class Reader:
    """An open stream. `last_id` is what a browser would send when it connects again."""

    response: aiohttp.ClientResponse
    last_id: str = ""
    _fields: dict[str, str] = field(default_factory=dict)

    async def next(self, *kinds: str) -> Message:
        """The next event of one of these kinds, by default of the timeline; fails at the end of the stream."""
        while True:
            message = await self.read()
            assert message is not None, "the stream ended"
            if message.kind in (kinds or ("message",)):
                return message

    async def named(self, count: int) -> list[str]:
        """The names of the next events of the timeline."""
        return [(await self.next()).data["event"] for _ in range(count)]

    async def read(self) -> Message | None:
        """The next event; None at the end."""
        async for raw in self.response.content:
            line = raw.decode().rstrip("\r\n")
            if line and not line.startswith(":"):
                name, _, value = line.partition(": ")
                self._fields[name] = value
            elif not line and self._fields:
                found, self._fields = self._fields, {}
                self.last_id = found.get("id", self.last_id)
                data = found["data"]
                parsed = json.loads(data) if data.startswith("{") else data
                return Message(found.get("event", "message"), parsed, self.last_id)
        return None


@asynccontextmanager
async def reading(
    world: World, token: str | None, path: str = "/api/v1/events", *, last_id: str = "", address: str = ""
) -> AsyncIterator[Reader]:
    """Open a stream, and wait until it has begun."""
    headers: Mapping[str, str] = {
        **({} if token is None else {"Authorization": f"Bearer {token}"}),
        **({"X-Forwarded-For": address} if address else {}),
    }
    url = f"http://127.0.0.1:{world.runner.addresses[0][1]}{path}"
    async with reading_at(url, headers, last_id=last_id) as reader:
        yield reader


@asynccontextmanager
async def reading_at(url: str, headers: Mapping[str, str], *, last_id: str = "") -> AsyncIterator[Reader]:
    """Open a stream of any process, and wait until it has begun."""
    headers = {**headers, **({"Last-Event-ID": last_id} if last_id else {})}
    async with aiohttp.ClientSession() as session, session.get(url, headers=headers) as response:
        assert response.status == 200, await response.text()
        reader = Reader(response, last_id)
        await reader.next("begin")
        yield reader
