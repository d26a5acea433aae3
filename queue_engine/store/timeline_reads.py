"""Reads of the timeline for people: pages of it, and figures of many queues in one statement.

Each read seeks in an index of the timeline and reads a bounded number of rows, however long the timeline is.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    CompoundSelect,
    Integer,
    Select,
    String,
    and_,
    bindparam,
    func,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.departure import Departure
from queue_engine.domain.model import Queue
from queue_engine.domain.timeline_event import TimelineEvent
from queue_engine.store.departure_tables import departures
from queue_engine.store.departures import departure_in
from queue_engine.store.tables import queues, timeline
from queue_engine.store.timeline import event_of

_ALL = select(timeline)
_REPOSITORY = timeline.c.repository_id == bindparam("its_repository")
_BEFORE = timeline.c.id < bindparam("before", type_=BigInteger)
_MOST: BindParameter[int] = bindparam("at_most", type_=Integer)
_QUEUES: BindParameter[int] = bindparam("its_queues", expanding=True)

_OF_PULL_REQUEST = (
    _ALL.where(_REPOSITORY, timeline.c.number == bindparam("its_number"), _BEFORE)
    .order_by(timeline.c.id.desc())
    .limit(_MOST)
)
_AFTERWARDS = (
    _ALL.where(
        _REPOSITORY,
        timeline.c.number == bindparam("its_number"),
        timeline.c.id > bindparam("after", type_=BigInteger),
    )
    .order_by(timeline.c.id)
    .limit(_MOST)
)
_OF_BRANCH = (
    _ALL.where(
        _REPOSITORY,
        timeline.c.base_branch == bindparam("its_branch"),
        timeline.c.event == bindparam("event"),
        timeline.c.id > bindparam("after", type_=BigInteger),
        _BEFORE,
    )
    .order_by(timeline.c.id.desc())
    .limit(_MOST)
)
_LAST_ID = select(timeline.c.id).where(timeline.c.at <= bindparam("at")).order_by(timeline.c.at.desc()).limit(_MOST)

_event: BindParameter[str] = bindparam("event", type_=String)
_other = timeline.alias("other")
_OF_ITS_QUEUE = and_(
    _other.c.repository_id == queues.c.repository_id,
    _other.c.base_branch == queues.c.base_branch,
    _other.c.event == _event,
)
_LAST = (
    select(timeline)
    .select_from(queues)
    .join(timeline, timeline.c.id == select(func.max(_other.c.id)).where(_OF_ITS_QUEUE).scalar_subquery())
    .where(queues.c.id.in_(_QUEUES))
)
_LEFT = (
    select(departures)
    .where(
        departures.c.repository_id == bindparam("its_repository"), departures.c.base_branch == bindparam("its_branch")
    )
    .order_by(departures.c.left_at.desc(), departures.c.id.desc())
    .limit(_MOST)
)
_BY_ID = select(timeline).where(timeline.c.id.in_(bindparam("ids", expanding=True)))

_NEWEST = 2**63 - 1
"""More than any id of an event."""


@dataclass(frozen=True, slots=True)
class WaitRecord:
    """One departure from a queue: its outcome, after how many seconds in the queue."""

    queue_id: int
    outcome: str
    seconds: float


_SIZES = (1, 10, 50)
"""For how many queues statements are built: to build one takes longer than to run it."""
_NO_QUEUE = (0, 0, "")
"""Fills up a statement: no repository has this id."""


@cache
def _waits(size: int) -> CompoundSelect[Any]:
    """Select the last departures of so many queues: one seek in the index for each, in one statement."""
    of = departures.c
    of_each = (
        select(bindparam(f"queue_{n}", type_=BigInteger).label("queue_id"), of.outcome, of.waited, of.is_last)
        .where(
            of.repository_id == bindparam(f"repository_{n}", type_=BigInteger),
            of.base_branch == bindparam(f"branch_{n}"),
            of.left_at >= bindparam("since"),
        )
        .order_by(of.left_at.desc())
        .limit(bindparam("at_most", type_=Integer))
        .subquery()
        for n in range(size)
    )
    return union_all(
        *(select(each.c.queue_id, each.c.outcome, each.c.waited).where(each.c.is_last) for each in of_each)
    )


class TimelineReads:
    """The reads, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def of_pull_request(
        self, repository_id: int, number: int, *, limit: int, before: int | None = None
    ) -> tuple[TimelineEvent, ...]:
        """Return the last `limit` events of a pull request with ids below `before`, newest first."""
        these = {"its_repository": repository_id, "its_number": number, "at_most": limit}
        return await self._read(_OF_PULL_REQUEST, **these, before=before or _NEWEST)

    async def afterwards(self, repository_id: int, number: int, *, after: int, limit: int) -> tuple[TimelineEvent, ...]:
        """Return the first `limit` events of a pull request with ids above `after`, oldest first."""
        return await self._read(
            _AFTERWARDS, its_repository=repository_id, its_number=number, at_most=limit, after=after
        )

    async def of_branch(
        self,
        repository_id: int,
        base_branch: str,
        events: Iterable[str],
        *,
        limit: int,
        before: int | None = None,
        after: int = 0,
    ) -> tuple[TimelineEvent, ...]:
        """Return the last `limit` of these events on a branch with ids between `after` and `before`, newest first."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "at_most": limit, "after": after}
        found: list[TimelineEvent] = []
        for event in events:
            found += await self._read(_OF_BRANCH, **these, event=event, before=before or _NEWEST)
        return tuple(sorted(found, key=lambda each: each.id, reverse=True)[:limit])

    async def last_id(self, at: datetime) -> int:
        """Return the id of the last event at this instant or before; 0 if there is none."""
        found = (await self._connection.execute(_LAST_ID, {"at": at, "at_most": 20})).scalars()
        return max(found, default=0)

    async def last_of_queues(self, queue_ids: Sequence[int], event: str) -> tuple[TimelineEvent, ...]:
        """Return the last such event of each of these queues that has one."""
        return await self._read(_LAST, its_queues=list(queue_ids), event=event)

    async def waits(self, some: Sequence[Queue], since: datetime, *, limit: int) -> tuple[WaitRecord, ...]:
        """Return the departures since then of each of these queues, the last `limit`, each pull request once."""
        found: list[WaitRecord] = []
        for first in range(0, len(some), _SIZES[-1]):
            part = some[first : first + _SIZES[-1]]
            size = next(each for each in _SIZES if each >= len(part))
            keys = [(queue.id, queue.repository.id, queue.base_branch) for queue in part]
            values: dict[str, Any] = {"since": since, "at_most": limit}
            for n, key in enumerate((*keys, *[_NO_QUEUE] * (size - len(part)))):
                values |= dict(zip((f"queue_{n}", f"repository_{n}", f"branch_{n}"), key, strict=True))
            found += (WaitRecord(*row) for row in await self._connection.execute(_waits(size), values))
        return tuple(found)

    async def departures(
        self, repository_id: int, base_branch: str, *, limit: int
    ) -> tuple[tuple[Departure, TimelineEvent | None], ...]:
        """Return the last `limit` departures of a queue, newest first, each with its event, if the timeline has it."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "at_most": limit}
        left = [departure_in(row) for row in await self._connection.execute(_LEFT, these)]
        events = {event.id: event for event in await self._read(_BY_ID, ids=[each.id for each in left])}
        return tuple((each, events.get(each.id)) for each in left)

    async def _read(self, statement: Select[Any], **these: Any) -> tuple[TimelineEvent, ...]:
        return tuple(map(event_of, await self._connection.execute(statement, these)))
