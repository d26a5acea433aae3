"""SQLAlchemy's connection to SQLite, with one order to the driver's thread where SQLAlchemy's own gives five.

aiosqlite runs the statements of each connection in a thread of its own. Each order to it costs several times what a
statement does: two threads and the event loop wake for it. So one order begins the transaction if need be, runs the
statement and reads all of its rows.
"""

import sqlite3
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import aiosqlite
from sqlalchemy.dialects.sqlite.aiosqlite import AsyncAdapt_aiosqlite_connection
from sqlalchemy.util.concurrency import await_

_Outcome: TypeAlias = tuple[Any, int, int | None, list[Any]]
"""The description of a result, its row count, the last inserted row, and all rows."""


class SqliteCursor:
    """Runs a statement and keeps its rows."""

    server_side = False

    def __init__(self, connection: "SqliteConnection") -> None:
        self._connection = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None

    def execute(self, sql: str, parameters: Any = ()) -> None:
        """Run a statement."""
        self._run(sqlite3.Connection.execute, sql, parameters)

    def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement once for each of these parameters."""
        self._run(sqlite3.Connection.executemany, sql, parameters)

    def fetchone(self) -> Any:
        """Take the next row; None after the last."""
        return self._rows.pop(0) if self._rows else None

    def fetchmany(self, size: int = 1) -> list[Any]:
        """Take the next rows."""
        taken, self._rows = self._rows[:size], self._rows[size:]
        return taken

    def fetchall(self) -> list[Any]:
        """Take all rows that are left."""
        rows, self._rows = self._rows, []
        return rows

    def close(self) -> None:
        """Drop the rows that nobody took."""
        self._rows = []

    async def _async_soft_close(self) -> None:
        """SQLAlchemy awaits this; the driver's cursor was closed when it had run."""

    def _run(self, method: Callable[..., sqlite3.Cursor], sql: str, parameters: Any) -> None:
        outcome = self._connection.order(partial(self._connection.outcome, method, sql, parameters))
        self.description, self.rowcount, self.lastrowid, self._rows = outcome


class SqliteConnection(AsyncAdapt_aiosqlite_connection):
    """A connection that begins its transaction with the first statement, and whose cursors read each result whole."""

    __slots__ = ("_begins", "_opening")
    _cursor_cls = SqliteCursor  # type: ignore[assignment]  # it has what SQLAlchemy calls

    def __init__(self, dbapi: Any, connection: aiosqlite.Connection, opening: str) -> None:
        """`opening` is the statement that begins each transaction."""
        super().__init__(dbapi, connection)  # type: ignore[arg-type]  # typed for a protocol of cursors
        self._opening = opening
        self._begins = False
        """Whether the next statement is the first of a transaction."""

    def begin(self) -> None:
        """Begin a transaction with the next statement."""
        self._begins = True

    def order(self, work: Callable[[], Any]) -> Any:
        """Have the thread do this, and return what it returns."""
        try:
            return await_(self._connection._execute(work))
        except Exception as error:
            self._handle_exception(error)

    def outcome(self, method: Callable[..., sqlite3.Cursor], sql: str, parameters: Any) -> _Outcome:
        """Run a statement and read its result; in the thread."""
        connection = self._connection._conn
        if self._begins:
            connection.execute(self._opening)
            self._begins = False
        cursor = method(connection, sql, parameters)
        rows = cursor.fetchall() if cursor.description else []
        cursor.close()
        return cursor.description, cursor.rowcount, cursor.lastrowid, rows

    def commit(self) -> None:
        """Commit, if a statement has run."""
        if not self._is_unused():
            self.order(lambda: self._connection._conn.commit())

    def rollback(self) -> None:
        """Roll back, if a statement has run. Whoever uses the connection next waits for that, and nobody else does."""
        if not self._is_unused():
            self._connection._tx.put_nowait((None, self._connection._conn.rollback))

    def _is_unused(self) -> bool:
        """Whether nothing has run in this transaction, or the connection was closed."""
        unused, self._begins = self._begins, False
        return unused or not self._connection._connection
