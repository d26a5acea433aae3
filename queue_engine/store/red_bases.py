"""Red bases: base branches that fail their own checks, while queues wait for them."""

from collections.abc import Awaitable, Callable, Collection
from dataclasses import replace
from datetime import datetime
from json import dumps, loads
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.failing_check import FailingCheck, as_data
from queue_engine.domain.model import Queue, RedBase
from queue_engine.store.tables import queues

_TIPS = select(queues.c.repository_id, queues.c.red_tip).where(
    queues.c.repository_id.in_(bindparam("repositories", expanding=True)), queues.c.red_check.is_not(None)
)
_WAITING = (
    select(queues.c.id)
    .where(queues.c.repository_id == bindparam("its_repository"), queues.c.red_tip == bindparam("its_tip"))
    .order_by(queues.c.id)
)
_CHANGE = update(queues).where(queues.c.id == bindparam("its_id"))


class RedBases:
    """The red bases, on one connection; each is stored in the row of its queue."""

    def __init__(self, connection: AsyncConnection, wake: Callable[[int, datetime], Awaitable[None]]) -> None:
        """`wake` makes a queue due."""
        self._connection = connection
        self._wake = wake

    async def note(self, queue_id: int, red: RedBase | None, *, expected: RedBase | None = None) -> bool:
        """Store that the base fails its checks; None: that it passes again.

        With `expected` the store changes only this value; False, without a change, if another one is stored.
        """
        unchanged = () if expected is None else [column == value for column, value in _values(expected).items()]
        noted = _CHANGE.where(*unchanged).values(_values(red))
        return (await self._connection.execute(noted, {"its_id": queue_id})).rowcount == 1

    async def tips(self, repository_ids: Collection[int]) -> set[tuple[int, str]]:
        """Return the failing tips that queues of these repositories wait for: repository and commit."""
        found = await self._connection.execute(_TIPS, {"repositories": list(repository_ids)})
        return {(row.repository_id, row.red_tip) for row in found}

    async def reported(self, repository_id: int, sha: str, now: datetime) -> None:
        """Wake the queues that wait for this commit to pass: a check reported on it."""
        waiting = await self._connection.execute(_WAITING, {"its_repository": repository_id, "its_tip": sha})
        for queue_id in waiting.scalars().all():
            await self._connection.execute(_CHANGE, {"its_id": queue_id, "red_next_poll_at": now})
            await self._wake(queue_id, now)

    async def moved(self, queue: Queue, tip: str, now: datetime) -> None:
        """Replace a failing tip by the new tip of the base branch, and wake the queue to read its checks."""
        if queue.red is not None and queue.red.tip != tip:
            await self.note(queue.id, replace(queue.red, tip=tip, polls=0, next_poll_at=now))
            await self._wake(queue.id, now)


def _values(red: RedBase | None) -> dict[ColumnElement[Any], Any]:
    return {
        queues.c.red_check: red and red.check,
        queues.c.red_app_id: red and red.app_id,
        queues.c.red_tip: red and red.tip,
        queues.c.red_since: red and red.since,
        queues.c.red_polls: red.polls if red else 0,
        queues.c.red_next_poll_at: red and red.next_poll_at,
        queues.c.red_untested: bool(red and red.untested),
        queues.c.red_rerun: red and red.rerun,
        queues.c.red_failing: dumps(as_data(red.failing)) if red and red.failing else None,
    }


def red_base_of(row: Row[Any]) -> RedBase | None:
    """Convert the columns of a queue's row; None where its base is not known to be red."""
    if row.red_check is None:
        return None
    return RedBase(
        row.red_check,
        row.red_tip,
        row.red_since,
        row.red_polls,
        row.red_next_poll_at,
        row.red_app_id,
        untested=row.red_untested,
        rerun=row.red_rerun,
        failing=tuple(map(FailingCheck.of_data, loads(row.red_failing or "[]"))),
    )
