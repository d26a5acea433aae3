"""A statement on SQLite as one errand: run, read to its end and closed by one trip to the connection's thread.

aiosqlite goes there for each step, five times for a statement, and the trips cost several times what the statement
does. Results are read whole in any case: SQLAlchemy does that with every asynchronous driver.
"""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any, Self

import aiosqlite


class Errand:
    """What SQLAlchemy asks of a cursor of aiosqlite's. It holds nothing: there is nothing to enter, nor to close."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection: Any = connection
        self._rows: list[Any] = []
        self.description: Any = None
        self.rowcount = -1
        self.lastrowid: int | None = None
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> None:
        """Run a statement and keep its rows. Raises what sqlite3 raises, and ValueError on a closed connection."""
        await self._go(lambda cursor: cursor.execute(sql, parameters))

    async def executemany(self, sql: str, parameters: Sequence[Any]) -> None:
        """Run a statement once for each of these. Raises as `execute` does."""
        await self._go(lambda cursor: cursor.executemany(sql, parameters))

    async def fetchall(self) -> list[Any]:
        """The rows, which are given once."""
        rows, self._rows = self._rows, []
        return rows

    async def close(self) -> None:
        """Closed it has been since it ran."""

    async def _go(self, work: Callable[[sqlite3.Cursor], object]) -> None:
        await self._connection._execute(self._run, work)

    def _run(self, work: Callable[[sqlite3.Cursor], object]) -> None:
        """In the connection's thread; nobody looks at this object before it is done."""
        with closing(self._connection._conn.cursor()) as cursor:
            work(cursor)
            self._rows = cursor.fetchall() if cursor.description else []
            self.description, self.rowcount, self.lastrowid = cursor.description, cursor.rowcount, cursor.lastrowid
