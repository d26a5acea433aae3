"""Calls that take a key, and how often each was done."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from bot.api.idempotent import finish_call
from tests.support.unfinished_jobs import unfinished_jobs
from tests.unit.bot.api.api_server import ApiServer

KEY = "0f4c3f0e-6b1e-4d0a-8f0e-2f9f3d9b7c11"


@dataclass
class Works:
    """Two routes that each store a job per execution.

    `/whole` stores the job in one transaction with its answer, `/parts` before it. `todo` holds the result of each next
    call.
    """

    server: ApiServer
    todo: list[Exception | int] = field(default_factory=list)
    started: asyncio.Event = field(default_factory=asyncio.Event)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    def routes(self) -> list[web.RouteDef]:
        return [
            web.post("/whole", self.whole),
            web.post("/parts", self.parts),
            web.delete("/whole", self.nothing),
            web.get("/whole", self.parts),
        ]

    async def _let_through(self) -> None:
        self.started.set()
        await self.gate.wait()

    async def whole(self, request: web.Request) -> web.Response:
        await self._let_through()
        async with self.server.engine.change() as change:
            await self._do(change.tx)
            answer = await finish_call(
                request, change.tx, {"number": await unfinished_jobs(change.tx.jobs)}, status=201
            )
            if self.todo and isinstance(problem := self.todo.pop(0), Exception):
                raise problem
        if self.todo and isinstance(problem := self.todo.pop(0), Exception):
            raise problem
        return answer

    async def parts(self, request: web.Request) -> web.Response:
        await self._let_through()
        result = self.todo.pop(0) if self.todo else 200
        if isinstance(result, Exception):
            raise result
        async with self.server.engine.change() as change:
            await self._do(change.tx)
            number = await unfinished_jobs(change.tx.jobs)
        return web.json_response({"number": number}, status=result)

    async def nothing(self, request: web.Request) -> web.Response:
        async with self.server.engine.change() as change:
            await self._do(change.tx)
            return await finish_call(request, change.tx, None, status=204)

    async def _do(self, tx: Any) -> None:
        await tx.jobs.enqueue(kind="work", request={}, process_id="p", now=self.server.clock.now())

    async def done(self) -> int:
        """How many times something was done."""
        async with self.server.engine.store.reading() as tx:
            return int(await unfinished_jobs(tx.jobs))
