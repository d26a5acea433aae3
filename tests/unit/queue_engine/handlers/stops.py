"""A database and a GitHub whose caller is stopped at one of its awaits."""

import asyncio
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, cast

from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database
from tests.unit.queue_engine.handlers.github_double import Hub


class Stop:
    """Where the first handler is stopped: at its await number `at`, of all or of those in transactions that write."""

    def __init__(self, *, writing_only: bool) -> None:
        self.writing_only = writing_only
        self.arm(0)

    def arm(self, at: int) -> None:
        self._left = at
        self.where = ""
        self.reached, self.go_on = asyncio.Event(), asyncio.Event()

    async def __call__(self, where: object, *, writing: bool = False) -> None:
        if self.writing_only and not writing:
            return
        self._left -= 1
        if self._left == 0:
            self.where = str(where)
            self.reached.set()
            await self.go_on.wait()


_DECIDING = frozenset({"entries", "queues"})
"""The tables whose rows are locked, or decided by; what is read or written of others follows from these."""

_known: dict[int, tuple[object, bool]] = {}


def _decides(statement: Any) -> bool:
    """Whether it makes a difference what comes before this statement.

    Decided once for each: statements are constants.
    """
    if id(statement) not in _known:
        words = set(re.findall(r"\w+", str(statement)))
        _known[id(statement)] = (statement, bool(words & _DECIDING) or "pg_advisory_xact_lock" in words)
    return _known[id(statement)][1]


class _StoppedConnection:
    """A connection of which every statement may be one to stop before."""

    def __init__(self, connection: AsyncConnection, stop: Stop) -> None:
        self._connection, self._stop = connection, stop

    def __getattr__(self, name: str) -> Any:
        return getattr(self._connection, name)

    async def execute(self, statement: Any, *given: Any) -> Any:
        if _decides(statement):
            await self._stop(statement, writing=True)
        return await self._connection.execute(statement, *given)

    async def scalars(self, statement: Any, *given: Any) -> Any:
        if _decides(statement):
            await self._stop(statement, writing=True)
        return await self._connection.scalars(statement, *given)


class StoppedDatabase(Database):
    """A database whose user may be stopped before each statement, and before what it reads of one instant."""

    def __init__(self, url: str, stop: Stop) -> None:
        super().__init__(url)
        self._stop = stop

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[AsyncConnection]:
        async with super().transaction() as connection:
            yield cast(AsyncConnection, _StoppedConnection(connection, self._stop))

    @asynccontextmanager
    async def reading(self) -> AsyncGenerator[AsyncConnection]:
        await self._stop("reading")
        async with super().reading() as connection:
            yield connection


class _StoppedHub:
    """GitHub as one who may be stopped before each request sees it."""

    def __init__(self, hub: Hub, stop: Stop) -> None:
        self._hub, self._stop = hub, stop

    def __getattr__(self, name: str) -> Any:
        ask = getattr(self._hub, name)
        if not asyncio.iscoroutinefunction(ask):
            return ask

        async def asked(*given: Any, **named: Any) -> Any:
            await self._stop(name)
            return await ask(*given, **named)

        return asked
