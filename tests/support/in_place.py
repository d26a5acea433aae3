"""SQLite in the thread and in the task that ask, for worlds and unit tests: one process, one bot, one file.

aiosqlite runs the statements of each connection in a thread of its own, so that a slow disk delays no task, and
SQLAlchemy runs each in a greenlet, so that it may wait for that thread. These tests have no other task, and both cost
several times what the statement does. The statements and their transactions stay as they are, and at the end of each
transaction others may run; no other connection sees an open transaction. An engine keeps one connection from
transaction to transaction, because SQLAlchemy's way to its pool and back costs more than most statements.

Not for two bots on one file: SQLite waits for a lock that another holds, and here the other would wait with it.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import coroutine
from typing import Any
from unittest.mock import patch

import aiosqlite.core
from sqlalchemy import AsyncAdaptedQueuePool, Connection, Engine, Transaction
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, engine
from sqlalchemy.util.concurrency import greenlet_spawn

from queue_engine.core.database.database import FileTransaction

Order = tuple[asyncio.Future[Any] | None, Callable[[], Any]]

_PLACES = (Connection, Engine)
"""What knows the database that a statement is for."""

_AWAITS_NOTHING = frozenset({"begin", "__exit__", "close"})
"""What SQLAlchemy does with a connection from its pool; to end a transaction awaits nothing either."""


class _AtOnce:
    """What a connection puts its orders into, in place of its thread's queue: carried out as they come."""

    def put_nowait(self, order: Order) -> None:
        future, statement = order
        settle: Callable[[asyncio.Future[Any], Any], None]
        try:
            settle, outcome = aiosqlite.core.set_result, statement()
        except BaseException as error:  # Any error is for the task that awaits the statement.
            settle, outcome = aiosqlite.core.set_exception, error
        if future is not None:
            settle(future, outcome)


class _NoThread:
    """A thread that never starts."""

    def __init__(self, target: object, args: object) -> None:
        self.daemon = True

    def start(self) -> None:
        pass


def _at_once(connection: FileTransaction, work: Callable[[], Any]) -> Any:
    """Do in the task what is for the thread."""
    try:
        return work()
    except Exception as error:
        connection._handle_exception(error)


async def _spawn(work: Callable[..., Any], *given: Any, _require_await: bool = False, **named: Any) -> Any:
    """What never awaits here is run at once; what may, as connecting does, runs in a greenlet, as ever.

    So does what is for PostgreSQL, which answers from another process: a world may move there.
    """
    of = getattr(work, "__self__", None)
    place = of.connection if isinstance(of, Transaction) else of
    if not isinstance(place, _PLACES):
        place = next((each for each in given if isinstance(each, _PLACES)), None)
    if place is not None and place.dialect.name == "postgresql":
        return await greenlet_spawn(work, *given, **named)
    if _require_await:
        return work(*given, **named)
    if isinstance(of, Engine):
        if work.__name__ == "connect" and isinstance(of.pool, AsyncAdaptedQueuePool) and of.pool.checkedin():
            return work(*given, **named)
    elif isinstance(of, Transaction | Connection) and work.__name__ in _AWAITS_NOTHING:
        ends = work.__name__ != "begin" and (isinstance(of, Transaction) or of.in_transaction())
        try:
            return work(*given, **named)
        finally:
            if ends:
                await _let_others_run()
    return await greenlet_spawn(work, *given, **named)


@coroutine
def _let_others_run() -> Iterator[None]:
    yield


class _Kept:
    """One connection of each engine, kept from transaction to transaction; with more the pool might have none left."""

    def __init__(self) -> None:
        self._free: dict[Engine, AsyncConnection] = {}
        self._dispose = AsyncEngine.dispose

    @asynccontextmanager
    async def connect(self, of: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
        """In place of `AsyncEngine.connect`, for who enters it at once: so `Database` does."""
        connection = self._free.pop(of.sync_engine, None) or await AsyncConnection(of).start()
        inner = connection.sync_connection
        assert inner is not None
        try:
            yield connection
        finally:
            if of.dialect.name != "sqlite" or of.sync_engine in self._free or inner.invalidated or inner.closed:
                await connection.close()
            else:
                self._free[of.sync_engine] = connection
                if inner.in_transaction():
                    inner.rollback()
                    await _let_others_run()

    @asynccontextmanager
    async def begin(self, of: AsyncEngine) -> AsyncGenerator[AsyncConnection]:
        """In place of `AsyncEngine.begin`."""
        async with self.connect(of) as connection, connection.begin():
            yield connection

    async def dispose(self, of: AsyncEngine) -> None:
        """In place of `AsyncEngine.dispose`, which closes what is in the pool."""
        connection = self._free.pop(of.sync_engine, None)
        if connection is not None:
            await connection.close()
        await self._dispose(of)


async def _to_its_end(closing: Awaitable[Any]) -> Any:
    """Close a connection without a task of its own."""
    return await closing


@contextmanager
def statements_in_place() -> Iterator[None]:
    """Connections that are made from now on, until the end, have no thread and await no statement.

    Within itself it changes nothing: a second keeper of connections would wait for the one that the first keeps.
    """
    if vars(engine)["greenlet_spawn"] is _spawn:
        yield
        return
    kept = _Kept()
    with (
        patch.object(AsyncEngine, "connect", lambda of: kept.connect(of)),
        patch.object(AsyncEngine, "begin", lambda of: kept.begin(of)),
        patch.object(AsyncEngine, "dispose", lambda of: kept.dispose(of)),
        patch.multiple(aiosqlite.core, SimpleQueue=_AtOnce, Thread=_NoThread),
        patch.object(FileTransaction, "order", _at_once),
        patch.multiple(engine, greenlet_spawn=_spawn, _run_to_completion=_to_its_end),
    ):
        yield
