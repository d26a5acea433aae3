"""Pauses: the stored blockers of a queue, each in a column of its own.

Setting or lifting a pause writes only its column, so that concurrent changes of two pauses do not undo each other.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Row, bindparam, or_, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.read_model import adapter
from queue_engine.domain.model import PASSING_PAUSES, PAUSES, Pause
from queue_engine.domain.reasons import Reason
from queue_engine.store.tables import queues

_CHANGE = update(queues).where(queues.c.id == bindparam("its_id"))

PAUSED: ColumnElement[bool] = or_(*(queues.c[reason].is_not(None) for reason in PAUSES))
"""Whether a queue has any pause."""

PAUSED_UNTIL_RESUMED: ColumnElement[bool] = or_(
    *(queues.c[reason].is_not(None) for reason in PAUSES if reason not in PASSING_PAUSES)
)
"""Whether a queue has a pause that does not end by itself."""


class Pauses:
    """The pauses, on one connection."""

    def __init__(self, connection: AsyncConnection, wake: Callable[[int, datetime], Awaitable[None]]) -> None:
        """`wake` makes a queue due."""
        self._connection = connection
        self._wake = wake

    async def put(self, queue_id: int, pause: Pause) -> None:
        """Pause the queue for this reason, in place of an earlier pause for the same reason.

        The queue is due at once, also during a backoff: its pass announces the pause, and sets the next due time.
        """
        values = {pause.reason.value: adapter(Pause).dump_python(pause, mode="json"), "due_at": pause.since}
        await self._connection.execute(_CHANGE, {"its_id": queue_id, **values})
        await self._wake(queue_id, pause.since)

    async def note(self, queue_id: int, pause: Pause) -> None:
        """Pause the queue for this reason without making it due: its next pass comes by itself, and announces it."""
        await self._connection.execute(
            _CHANGE, {"its_id": queue_id, pause.reason.value: adapter(Pause).dump_python(pause, mode="json")}
        )

    async def lift(self, queue_id: int, *reasons: Reason, now: datetime) -> None:
        """Lift the pauses for these reasons and no other, and make the queue due now.

        After the end of a refusal it is due even during a backoff, which waited for that end.
        """
        if reasons:
            values: dict[str, Any] = {reason.value: None for reason in reasons}
            due = {"due_at": now} if Reason.GITHUB_REFUSES in reasons else {}
            await self._connection.execute(_CHANGE, {"its_id": queue_id, **values, **due})
        await self._wake(queue_id, now)


def pauses_of(row: Row[Any]) -> tuple[Pause, ...]:
    """Read the pauses from a row of `queues`, the most important first."""
    stored = (row._mapping[reason.value] for reason in PAUSES)
    return tuple(adapter(Pause).validate_python(pause) for pause in stored if pause is not None)
