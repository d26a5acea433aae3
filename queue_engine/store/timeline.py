"""The timeline: what happened, one row per event, only ever appended to. Pages, statistics and ETAs derive from it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Row, select
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.reasons import Reason
from queue_engine.store.tables import timeline


@dataclass(frozen=True, slots=True)
class TimelineEvent:
    """Something that happened to a pull request, and why. `delivery` is the webhook that brought it about."""

    id: int
    at: datetime
    event: str
    repository_id: int
    base_branch: str
    number: int
    entry_id: str | None
    reason: Reason | None
    delivery: str | None
    data: Mapping[str, Any] | None


class Timeline:
    """The timeline, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def append(
        self,
        *,
        at: datetime,
        event: str,
        repository_id: int,
        base_branch: str,
        number: int,
        entry_id: str | None = None,
        reason: Reason | None = None,
        delivery: str | None = None,
        data: Mapping[str, Any] | None = None,
    ) -> None:
        """Write down what happened."""
        await self._connection.execute(
            timeline.insert().values(
                at=at,
                event=event,
                repository_id=repository_id,
                base_branch=base_branch,
                number=number,
                entry_id=entry_id,
                reason=reason,
                delivery=delivery,
                data=None if data is None else dict(data),
            )
        )

    async def of_pull_request(self, repository_id: int, number: int) -> tuple[TimelineEvent, ...]:
        """Everything that happened to a pull request, oldest first."""
        its_own = (timeline.c.repository_id == repository_id, timeline.c.number == number)
        return await self._read(select(timeline).where(*its_own).order_by(timeline.c.id))

    async def story(
        self, repository_id: int, base_branch: str, number: int, *, limit: int
    ) -> tuple[TimelineEvent, ...]:
        """The last `limit` events of a pull request, oldest first, among them what happened to its whole queue since
        the first of them."""
        theirs = (timeline.c.repository_id == repository_id, timeline.c.number == number)
        found = await self._read(select(timeline).where(*theirs).order_by(timeline.c.id.desc()).limit(limit))
        if not found:
            return ()
        of_all = (timeline.c.repository_id == repository_id, timeline.c.number == 0, timeline.c.id > found[-1].id)
        its_queue = select(timeline).where(*of_all, timeline.c.base_branch == base_branch)
        whole = await self._read(its_queue.order_by(timeline.c.id.desc()).limit(limit))
        return tuple(sorted((*found, *whole), key=lambda event: event.id))

    async def latest(self, limit: int) -> tuple[TimelineEvent, ...]:
        """The last `limit` events of all, newest first."""
        return await self._read(select(timeline).order_by(timeline.c.id.desc()).limit(limit))

    async def durations(
        self, repository_id: int, base_branch: str, event: str, key: str, *, limit: int = 50
    ) -> tuple[timedelta, ...]:
        """What the last `limit` such events on this branch tell of a duration under `key`, newest first."""
        these = (
            timeline.c.repository_id == repository_id,
            timeline.c.base_branch == base_branch,
            timeline.c.event == event,
        )
        latest = select(timeline.c.data).where(*these).order_by(timeline.c.id.desc()).limit(limit)
        found = (await self._connection.execute(latest)).scalars().all()
        return tuple(timedelta(seconds=data[key]) for data in found if data and data.get(key) is not None)

    async def pull_requests(
        self, repository_id: int, base_branch: str, event: str, since: datetime, *, limit: int = 10
    ) -> tuple[int, ...]:
        """To which pull requests this happened on this branch since then, the last `limit`, in the order it did."""
        these = (
            timeline.c.repository_id == repository_id,
            timeline.c.base_branch == base_branch,
            timeline.c.event == event,
            timeline.c.at >= since,
        )
        latest = select(timeline.c.number).where(*these).order_by(timeline.c.id.desc()).limit(limit)
        return tuple(reversed((await self._connection.execute(latest)).scalars().all()))

    async def since(self, event_id: int) -> tuple[TimelineEvent, ...]:
        """The events after this one, oldest first.

        With several writers on PostgreSQL an event may become visible after one with a higher id.
        """
        return await self._read(select(timeline).where(timeline.c.id > event_id).order_by(timeline.c.id))

    async def _read(self, statement: Any) -> tuple[TimelineEvent, ...]:
        return tuple(map(_event, await self._connection.execute(statement)))


def _event(row: Row[Any]) -> TimelineEvent:
    reason = None if row.reason is None else Reason(row.reason)
    return TimelineEvent(**(dict(row._mapping) | {"reason": reason}))
