"""SQLite in the thread and in the task that ask, for worlds: one process, one bot, one file.

aiosqlite runs the statements of each connection in a thread of its own, so that a slow disk delays no task, and
SQLAlchemy runs each in a greenlet, so that it may wait for that thread. A world has no other task, and both cost
several times what the statement does. The statements and their transactions stay as they are, and at the end of each
transaction others may run; no other connection sees an open transaction.

Not for two bots on one file: SQLite waits for a lock that another holds, and here the other would wait with it.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from types import coroutine
from typing import Any
from unittest.mock import patch

import aiosqlite.core
from sqlalchemy import AsyncAdaptedQueuePool, Connection, Engine, Transaction
from sqlalchemy.ext.asyncio import engine
from sqlalchemy.util.concurrency import greenlet_spawn

from queue_engine.core.database.sqlite_connection import SqliteConnection

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


def _at_once(connection: SqliteConnection, work: Callable[[], Any]) -> Any:
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


async def _to_its_end(closing: Awaitable[Any]) -> Any:
    """Close a connection without a task of its own."""
    return await closing


@contextmanager
def statements_in_place() -> Iterator[None]:
    """Connections that are made from now on, until the end, have no thread and await no statement."""
    with (
        patch.multiple(aiosqlite.core, SimpleQueue=_AtOnce, Thread=_NoThread),
        patch.object(SqliteConnection, "order", _at_once),
        patch.multiple(engine, greenlet_spawn=_spawn, _run_to_completion=_to_its_end),
    ):
        yield
