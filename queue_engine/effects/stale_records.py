"""Do work again whose transaction PostgreSQL ended for another one."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TypeVar

from queue_engine.domain.errors import StaleRecord

_T = TypeVar("_T")

_TIMES = 2
"""How often the work is repeated: a race that is lost three times in a row is left to the caller."""


async def repeated_if_stale(work: Callable[[], Awaitable[_T]]) -> _T:
    """Return what `work` returns; repeat it if it raises StaleRecord, such as after a deadlock with a migration.

    For work that nothing else repeats. Raises StaleRecord when it lost each time.
    """
    for _ in range(_TIMES):
        with suppress(StaleRecord):
            return await work()
    return await work()
