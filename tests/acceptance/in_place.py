"""SQLite in the thread and in the task that ask, for worlds: one process, one bot, one file.

aiosqlite runs the statements of each connection in a thread of its own, so that a slow disk holds up nobody, and
SQLAlchemy runs each in a greenlet, so that it may wait for that thread. A world has nobody to hold up, and both cost
several times what the statement does. The statements and their transactions stay as they are, and at the end of each
transaction others may run; nobody could see what is inside.

Not for two bots on one file: SQLite waits for a lock that another holds, and here the other would wait with it.
"""

import asyncio
import sqlite3
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from typing import Any
from unittest.mock import patch

import aiosqlite.core
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection
from sqlalchemy.ext.asyncio import engine
from sqlalchemy.util.concurrency import greenlet_spawn

Order = tuple[asyncio.Future[Any] | None, Callable[[], Any]]


class _AtOnce:
    """What a connection puts its orders into, in place of its thread's queue: carried out as they come."""

    def put_nowait(self, order: Order) -> None:
        future, statement = order
        tell: Callable[[asyncio.Future[Any], Any], None]
        try:
            tell, outcome = aiosqlite.core.set_result, statement()
        except BaseException as error:  # Any error is for the task that awaits the statement.
            tell, outcome = aiosqlite.core.set_exception, error
        if future is None:
            return
        if _ends_transaction(statement):
            future.get_loop().call_soon(tell, future, outcome)
        else:
            tell(future, outcome)


class _NoThread:
    """A thread that never starts."""

    def __init__(self, target: object, args: object) -> None:
        self.daemon = True

    def start(self) -> None:
        pass


class _Cursor:
    """SQLAlchemy's cursor on such a connection: it awaits nothing, and reads each result whole, as that one does."""

    server_side = False

    def __init__(self, connection: Any) -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    def execute(self, sql: str, parameters: Any = ()) -> None:
        self._run(lambda cursor: cursor.execute(sql, parameters))

    def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        self._run(lambda cursor: cursor.executemany(sql, parameters))

    def fetchone(self) -> Any:
        return self._rows.pop(0) if self._rows else None

    def fetchall(self) -> list[Any]:
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        self._rows = []

    async def _async_soft_close(self) -> None:
        """It was closed when it had run."""

    def _run(self, work: Callable[[sqlite3.Cursor], object]) -> None:
        try:
            with closing(self._connection.driver_connection._conn.cursor()) as cursor:
                work(cursor)
                self._rows = cursor.fetchall() if cursor.description else []
                self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid
        except Exception as error:
            self._connection._handle_exception(error)


async def _spawn(work: Callable[..., Any], *given: Any, _require_await: bool = False, **named: Any) -> Any:
    """A statement, which never awaits here, is run at once; what may await runs in a greenlet, as ever."""
    if _require_await:
        return work(*given, **named)
    return await greenlet_spawn(work, *given, **named)


async def _to_its_end(closing: Awaitable[Any]) -> Any:
    """Close a connection without a task of its own."""
    return await closing


@contextmanager
def statements_in_place() -> Iterator[None]:
    """Connections that are made from now on, until the end, have no thread and await no statement."""
    with (
        patch.multiple(aiosqlite.core, SimpleQueue=_AtOnce, Thread=_NoThread),
        patch.object(AsyncAdapt_aiosqlite_connection, "_cursor_cls", _Cursor),
        patch.multiple(engine, greenlet_spawn=_spawn, _run_to_completion=_to_its_end),
    ):
        yield


def _ends_transaction(statement: Callable[[], Any]) -> bool:
    return getattr(getattr(statement, "func", None), "__name__", "") in {"commit", "rollback"}
