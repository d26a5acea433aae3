"""The timeline: one row per event, append-only. Pages, statistics and ETAs derive from it.

Each read seeks in an index of the timeline and reads a bounded number of rows, however long the timeline is.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cache
from typing import Any

from sqlalchemy import (
    BigInteger,
    BindParameter,
    ColumnElement,
    CompoundSelect,
    Integer,
    Row,
    Select,
    Subquery,
    and_,
    bindparam,
    delete,
    func,
    or_,
    select,
    union_all,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import TableStore
from queue_engine.domain.culprit import REVERTED
from queue_engine.domain.departure import Departure
from queue_engine.domain.model import WHOLE_QUEUE, Queue, TimelineEvent
from queue_engine.domain.reasons import Reason
from queue_engine.store.departures import departure_in
from queue_engine.store.tables import departures, entries, queues, timeline

_ALL = select(timeline)
_REPOSITORY = timeline.c.repository_id == bindparam("its_repository")
_BRANCH = timeline.c.base_branch == bindparam("its_branch")
_NUMBER = timeline.c.number == bindparam("its_number")
_EVENT = timeline.c.event == bindparam("event")
_AFTER = timeline.c.id > bindparam("after")
_BEFORE = timeline.c.id < bindparam("before_id")
_UP_TO = timeline.c.id <= bindparam("up_to")
_AT_MOST: BindParameter[int] = bindparam("at_most", type_=Integer)


def _latest(found: Select[Any]) -> Select[Any]:
    return found.order_by(timeline.c.id.desc()).limit(_AT_MOST)


_APPEND = timeline.insert()
_STORED = [name for name in TimelineEvent.__dataclass_fields__ if name != "id"]
_OF_PULL_REQUEST = _ALL.where(_REPOSITORY, _NUMBER).order_by(timeline.c.id)
_LATEST_OF_PULL_REQUEST = _latest(_ALL.where(_REPOSITORY, _NUMBER))
_LATEST_OF_QUEUE = _latest(_ALL.where(_REPOSITORY, timeline.c.number == WHOLE_QUEUE, _AFTER, _BRANCH))
_LATEST = _latest(_ALL)
_SINCE = (
    _ALL.where(or_(_AFTER, timeline.c.id.in_(bindparam("also", expanding=True))))
    .order_by(timeline.c.id)
    .limit(_AT_MOST)
)
_LATEST_BLOCKERS = union_all(
    *(
        select(_latest(_ALL.where(_REPOSITORY, _BRANCH, timeline.c.event == event, _UP_TO)).subquery())
        for event in ("paused", "resumed")
    )
)
_DATA = _latest(select(timeline.c.data).where(_REPOSITORY, _BRANCH, _EVENT))
_JOINED = _latest(
    select(timeline.c.data).where(
        _REPOSITORY, _NUMBER, timeline.c.event.in_(("queued", "held", "not_ready", "label_renamed"))
    )
)
_DEQUEUED = _latest(
    select(timeline.c.at).where(
        _REPOSITORY,
        _NUMBER,
        timeline.c.event.in_(("failed", "cancelled", "refused")),
        # Its label stays on, and is still consent when IMQ may write again.
        or_(timeline.c.reason.is_(None), timeline.c.reason != Reason.SHADOW_MODE),
    )
)
_LEFT = ("failed", "cancelled", "refused")
_later = timeline.alias("later")


def _none_follows(*events: str) -> ColumnElement[bool]:
    """None of these follows an event of a pull request."""
    same = _later.c.repository_id == timeline.c.repository_id, _later.c.number == timeline.c.number
    return ~select(_later.c.id).where(*same, _later.c.id > timeline.c.id, _later.c.event.in_(events)).exists()


_IS_LAST_DEQUEUE = and_(timeline.c.event.in_(_LEFT), _none_follows(*_LEFT, "landed"))
"""A label counts as consent only if it was set later than this event (P4)."""
_IS_QUEUED = (
    select(entries.c.seq)
    .where(entries.c.repository_id == timeline.c.repository_id, entries.c.number == timeline.c.number)
    .exists()
)
IS_DELEGATION = and_(
    timeline.c.event == "delegated", _none_follows("delegated", "undelegated", "queued", "held", "not_ready")
)
"""The author may queue the pull request once, by this event: whatever queues it, and `/undelegate`, ends that."""
NEEDED = or_(_IS_QUEUED, _IS_LAST_DEQUEUE, IS_DELEGATION, timeline.c.event == REVERTED)
"""Events that a decision may need, however old they are."""
_DELEGATION = _latest(_ALL.where(_REPOSITORY, _NUMBER, IS_DELEGATION))
_OLDEST = (
    select(timeline.c.id)
    .where(timeline.c.at < bindparam("before"), ~NEEDED)
    .order_by(timeline.c.at, timeline.c.id)
    .limit(_AT_MOST)
)
_PURGE = delete(timeline).where(timeline.c.id.in_(_OLDEST))
_OF_SET = _latest(_ALL.where(_REPOSITORY, _NUMBER, timeline.c.event.in_(("set_ready", "set_landed", "set_left"))))
_HAS_EVENT = select(select(timeline.c.id).where(_REPOSITORY, _BRANCH, _EVENT).exists())
_NUMBERS = _latest(select(timeline.c.number).where(_REPOSITORY, _BRANCH, _EVENT, timeline.c.at >= bindparam("since")))


class _EventReads(TableStore):
    async def _read(self, statement: Select[Any] | CompoundSelect[Any], **these: Any) -> tuple[TimelineEvent, ...]:
        return tuple(map(event_of, await self._connection.execute(statement, these)))


class Timeline(_EventReads):
    """The timeline as decisions need it, on one connection."""

    def __init__(self, connection: AsyncConnection, appended: Callable[[], None] = lambda: None) -> None:
        """`appended` is called for every stored event."""
        super().__init__(connection)
        self._appended = appended

    async def append(self, event: TimelineEvent) -> TimelineEvent:
        """Store one event; returns the event with its id."""
        key = (await self._connection.execute(_APPEND, event_row(event))).inserted_primary_key
        assert key is not None
        self._appended()
        return replace(event, id=key.id)

    async def of_pull_request(self, repository_id: int, number: int) -> tuple[TimelineEvent, ...]:
        """Return all events of a pull request, oldest first."""
        return await self._read(_OF_PULL_REQUEST, its_repository=repository_id, its_number=number)

    async def history(
        self, repository_id: int, base_branch: str, number: int, *, limit: int
    ) -> tuple[TimelineEvent, ...]:
        """Return the last `limit` events of a pull request and the events of its queue since, oldest first."""
        some = {"its_repository": repository_id, "at_most": limit}
        found = await self._read(_LATEST_OF_PULL_REQUEST, **some, its_number=number)
        if not found:
            return ()
        whole = await self._read(_LATEST_OF_QUEUE, **some, its_branch=base_branch, after=found[-1].id)
        return tuple(sorted((*found, *whole), key=lambda event: event.id))

    async def blockers(
        self, repository_id: int, base_branch: str, *, up_to: int, limit: int = 50
    ) -> tuple[TimelineEvent, ...]:
        """Return the last pauses and resumptions of a queue up to this event, `limit` of each, oldest first."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "up_to": up_to, "at_most": limit}
        return tuple(sorted(await self._read(_LATEST_BLOCKERS, **these), key=lambda event: event.id))

    async def latest(self, limit: int) -> tuple[TimelineEvent, ...]:
        """Return the last `limit` events of all, newest first."""
        return await self._read(_LATEST, at_most=limit)

    async def durations(
        self, repository_id: int, base_branch: str, event: str, key: str, *, limit: int = 50
    ) -> tuple[timedelta, ...]:
        """Return the duration under `key` in the last `limit` such events on this branch, newest first."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "event": event, "at_most": limit}
        found = (await self._connection.execute(_DATA, these)).scalars().all()
        return tuple(timedelta(seconds=data[key]) for data in found if data and data.get(key) is not None)

    async def queued_by(self, repository_id: int, number: int) -> tuple[str, ...]:
        """Return the labels that queued a pull request last, as trigger labels then; empty if unknown."""
        these = {"its_repository": repository_id, "its_number": number, "at_most": 3}
        found = (await self._connection.execute(_JOINED, these)).scalars().all()
        return next((tuple(data["labels"]) for data in found if data and data.get("labels")), ())

    async def dequeued_at(self, repository_id: int, number: int) -> datetime | None:
        """Return when this pull request last left its queue without landing, or was refused; None if never."""
        these = {"its_repository": repository_id, "its_number": number, "at_most": 1}
        at: datetime | None = (await self._connection.execute(_DEQUEUED, these)).scalar_one_or_none()
        return at

    async def delegation(self, repository_id: int, number: int) -> TimelineEvent | None:
        """Return by which event the author may queue a pull request once; None without one."""
        found = await self._read(_DELEGATION, its_repository=repository_id, its_number=number, at_most=1)
        return found[0] if found else None

    async def of_set(self, repository_id: int, number: int, *, limit: int = 50) -> tuple[TimelineEvent, ...]:
        """Return the last events of the sets to which a pull request belongs by its description, newest first."""
        return await self._read(_OF_SET, its_repository=repository_id, its_number=number, at_most=limit)

    async def has_event(self, repository_id: int, base_branch: str, event: str) -> bool:
        """Return whether such an event happened on this branch, as long as events are kept."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "event": event}
        return bool((await self._connection.execute(_HAS_EVENT, these)).scalar_one())

    async def pull_requests(
        self, repository_id: int, base_branch: str, event: str, since: datetime, *, limit: int = 10
    ) -> tuple[int, ...]:
        """Return the pull requests of the last `limit` such events on this branch since then, oldest first."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "event": event, "at_most": limit}
        found = (await self._connection.execute(_NUMBERS, {**these, "since": since})).scalars().all()
        return tuple(reversed(found))

    async def since(self, event_id: int, *, limit: int, also: Collection[int] = ()) -> tuple[TimelineEvent, ...]:
        """Return the first `limit` events after this one, and `also` events of these ids, oldest first.

        With several writers on PostgreSQL an event may become visible after another with a higher id.
        """
        return await self._read(_SINCE, after=event_id, also=list(also), at_most=limit)

    async def purge(self, before: datetime, *, at_most: int) -> int:
        """Delete the oldest events before this instant, at most so many; returns how many were deleted.

        Two kinds of events stay: those of queued pull requests, and the last dequeue of each pull request that has not
        landed since, which `dequeued_at` returns.
        """
        return (await self._connection.execute(_PURGE, {"before": before, "at_most": at_most})).rowcount


def event_row(event: TimelineEvent) -> dict[str, Any]:
    """Return the row of an event, which the database numbers."""
    return {name: getattr(event, name) for name in _STORED} | {"data": dict(event.data) or None}


def event_of(row: Row[Any]) -> TimelineEvent:
    reason = None if row.reason is None else Reason(row.reason)
    return TimelineEvent(**(dict(row._mapping) | {"reason": reason, "data": row.data or {}}))


_LATEST_BEFORE = _latest(_ALL.where(_REPOSITORY, _NUMBER, _BEFORE))
_AFTERWARDS = _ALL.where(_REPOSITORY, _NUMBER, _AFTER).order_by(timeline.c.id).limit(_AT_MOST)
_OF_BRANCH = _latest(_ALL.where(_REPOSITORY, _BRANCH, _EVENT, _AFTER, _BEFORE))
_LAST_ID = select(timeline.c.id).where(timeline.c.at <= bindparam("at")).order_by(timeline.c.at.desc()).limit(_AT_MOST)

_other = timeline.alias("other")
_OF_ITS_QUEUE = and_(
    _other.c.repository_id == queues.c.repository_id,
    _other.c.base_branch == queues.c.base_branch,
    _other.c.event == bindparam("event"),
)
_LAST = (
    select(timeline)
    .select_from(queues)
    .join(timeline, timeline.c.id == select(func.max(_other.c.id)).where(_OF_ITS_QUEUE).scalar_subquery())
    .where(queues.c.id.in_(bindparam("its_queues", expanding=True)))
)
_DEPARTURES = (
    select(departures)
    .where(
        departures.c.repository_id == bindparam("its_repository"), departures.c.base_branch == bindparam("its_branch")
    )
    .order_by(departures.c.left_at.desc(), departures.c.id.desc())
    .limit(_AT_MOST)
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


def _of_each(
    size: int, of: Any, wanted: Sequence[ColumnElement[Any]], latest: ColumnElement[Any], only: ColumnElement[bool]
) -> Iterator[Subquery]:
    """Select the latest rows of so many queues: one seek in the index for each, in one statement."""
    for n in range(size):
        yield (
            select(bindparam(f"queue_{n}", type_=BigInteger).label("queue_id"), *wanted)
            .where(
                of.repository_id == bindparam(f"repository_{n}", type_=BigInteger),
                of.base_branch == bindparam(f"branch_{n}"),
                only,
            )
            .order_by(latest.desc())
            .limit(_AT_MOST)
            .subquery()
        )


@cache
def _waits(size: int) -> CompoundSelect[Any]:
    """Select the last departures of so many queues."""
    of = departures.c
    found = _of_each(size, of, (of.outcome, of.waited, of.is_last), of.left_at, of.left_at >= bindparam("since"))
    return union_all(*(select(each.c.queue_id, each.c.outcome, each.c.waited).where(each.c.is_last) for each in found))


@cache
def _last_of_each(size: int) -> CompoundSelect[Any]:
    """Select the data of the last such events of so many queues."""
    found = _of_each(size, timeline.c, (timeline.c.data,), timeline.c.id, _EVENT)
    return union_all(*(select(each.c.queue_id, each.c.data) for each in found))


def _in_parts(some: Sequence[Queue]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield, for a part of the queues each, the size of the statement that reads it, and its values."""
    for first in range(0, len(some), _SIZES[-1]):
        part = some[first : first + _SIZES[-1]]
        size = next(each for each in _SIZES if each >= len(part))
        keys = [(queue.id, queue.repository.id, queue.base_branch) for queue in part]
        values: dict[str, Any] = {}
        for n, key in enumerate((*keys, *[_NO_QUEUE] * (size - len(part)))):
            values |= dict(zip((f"queue_{n}", f"repository_{n}", f"branch_{n}"), key, strict=True))
        yield size, values


class TimelineReads(_EventReads):
    """Reads of a bounded part of the timeline, for pages, statistics and ETAs, on one connection."""

    async def of_pull_request(
        self, repository_id: int, number: int, *, limit: int, before: int | None = None
    ) -> tuple[TimelineEvent, ...]:
        """Return the last `limit` events of a pull request with ids below `before`, newest first."""
        these = {"its_repository": repository_id, "its_number": number, "at_most": limit}
        return await self._read(_LATEST_BEFORE, **these, before_id=before or _NEWEST)

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
            found += await self._read(_OF_BRANCH, **these, event=event, before_id=before or _NEWEST)
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
        for size, values in _in_parts(some):
            these = {**values, "since": since, "at_most": limit}
            found += (WaitRecord(*row) for row in await self._connection.execute(_waits(size), these))
        return tuple(found)

    async def last_of_each(
        self, some: Sequence[Queue], event: str, *, limit: int
    ) -> dict[int, tuple[Mapping[str, Any], ...]]:
        """Return the data of the last `limit` such events of each of these queues, by its id, newest first."""
        found: dict[int, tuple[Mapping[str, Any], ...]] = {}
        for size, values in _in_parts(some):
            these = {**values, "event": event, "at_most": limit}
            for queue_id, data in await self._connection.execute(_last_of_each(size), these):
                found[queue_id] = (*found.get(queue_id, ()), data or {})
        return found

    async def departures(
        self, repository_id: int, base_branch: str, *, limit: int
    ) -> tuple[tuple[Departure, TimelineEvent | None], ...]:
        """Return the last `limit` departures of a queue, newest first, each with its event, if the timeline has it."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "at_most": limit}
        left = [departure_in(row) for row in await self._connection.execute(_DEPARTURES, these)]
        events = {event.id: event for event in await self._read(_BY_ID, ids=[each.id for each in left])}
        return tuple((each, events.get(each.id)) for each in left)
