"""SQLite in the thread that asks, for worlds: one process, one bot, one file.

aiosqlite runs the statements of each connection in a thread of its own, so that a slow disk holds up nobody. A world
has nobody to hold up, and two changes of thread for each statement are a third of what it costs. The statements and
their transactions stay as they are, and at the end of each transaction others may run; nobody could see what is inside.

Not for two bots on one file: SQLite waits for a lock that another holds, and here the other would wait with it.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest.mock import patch

import aiosqlite.core

Order = tuple[asyncio.Future[Any] | None, Callable[[], Any]]


class _AtOnce:
    """What a connection puts its orders into, in place of its thread's queue: carried out as they come."""

    def put_nowait(self, order: Order) -> None:
        future, statement = order
        tell: Callable[[asyncio.Future[Any], Any], None]
        try:
            tell, outcome = aiosqlite.core.set_result, statement()
        except BaseException as error:  # Whatever it is, it is for whoever awaits the statement.
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


@contextmanager
def statements_in_place() -> Iterator[None]:
    """Connections that are made from now on, until the end, have no thread."""
    with patch.multiple(aiosqlite.core, SimpleQueue=_AtOnce, Thread=_NoThread):
        yield


def _ends_transaction(statement: Callable[[], Any]) -> bool:
    return getattr(getattr(statement, "func", None), "__name__", "") in {"commit", "rollback"}
