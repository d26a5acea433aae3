"""The timeline: one row per event, append-only. Pages, statistics and ETAs derive from it."""

from collections.abc import Callable, Collection
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import Integer, Row, Select, and_, bindparam, delete, or_, select, union_all
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.reasons import Reason
from queue_engine.domain.timeline_event import WHOLE_QUEUE, TimelineEvent
from queue_engine.store.tables import entries, timeline

_ALL = select(timeline)
_REPOSITORY = timeline.c.repository_id == bindparam("its_repository")
_BRANCH = timeline.c.base_branch == bindparam("its_branch")
_NUMBER = timeline.c.number == bindparam("its_number")
_EVENT = timeline.c.event == bindparam("event")
_AFTER = timeline.c.id > bindparam("after")
_UP_TO = timeline.c.id <= bindparam("up_to")


def _latest(found: Select[Any]) -> Select[Any]:
    return found.order_by(timeline.c.id.desc()).limit(bindparam("at_most", type_=Integer))


_APPEND = timeline.insert()
_STORED = [name for name in TimelineEvent.__dataclass_fields__ if name != "id"]
_OF_PULL_REQUEST = _ALL.where(_REPOSITORY, _NUMBER).order_by(timeline.c.id)
_LATEST_OF_PULL_REQUEST = _latest(_ALL.where(_REPOSITORY, _NUMBER))
_LATEST_OF_QUEUE = _latest(_ALL.where(_REPOSITORY, timeline.c.number == WHOLE_QUEUE, _AFTER, _BRANCH))
_LATEST = _latest(_ALL)
_SINCE = (
    _ALL.where(or_(_AFTER, timeline.c.id.in_(bindparam("also", expanding=True))))
    .order_by(timeline.c.id)
    .limit(bindparam("at_most", type_=Integer))
)
_LATEST_BLOCKERS = union_all(
    *(
        select(_latest(_ALL.where(_REPOSITORY, _BRANCH, timeline.c.event == event, _UP_TO)).subquery())
        for event in ("paused", "resumed")
    )
)
_DATA = _latest(select(timeline.c.data).where(_REPOSITORY, _BRANCH, _EVENT))
_JOINED = _latest(
    select(timeline.c.data).where(_REPOSITORY, _NUMBER, timeline.c.event.in_(("queued", "held", "not_ready")))
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
_IS_LAST_DEQUEUE = and_(
    timeline.c.event.in_(_LEFT),
    ~select(_later.c.id)
    .where(
        _later.c.repository_id == timeline.c.repository_id,
        _later.c.number == timeline.c.number,
        _later.c.id > timeline.c.id,
        _later.c.event.in_((*_LEFT, "landed")),
    )
    .exists(),
)
"""A label counts as consent only if it was set later than this event (P4)."""
_IS_QUEUED = (
    select(entries.c.seq)
    .where(entries.c.repository_id == timeline.c.repository_id, entries.c.number == timeline.c.number)
    .exists()
)
NEEDED = or_(_IS_QUEUED, _IS_LAST_DEQUEUE)
"""Events that a decision may need, however old they are."""
_OLDEST = (
    select(timeline.c.id)
    .where(timeline.c.at < bindparam("before"), ~NEEDED)
    .order_by(timeline.c.at, timeline.c.id)
    .limit(bindparam("at_most", type_=Integer))
)
_PURGE = delete(timeline).where(timeline.c.id.in_(_OLDEST))
_HAS_EVENT = select(select(timeline.c.id).where(_REPOSITORY, _BRANCH, _EVENT).exists())
_NUMBERS = _latest(select(timeline.c.number).where(_REPOSITORY, _BRANCH, _EVENT, timeline.c.at >= bindparam("since")))


class Timeline:
    """The timeline, on one connection."""

    def __init__(self, connection: AsyncConnection, appended: Callable[[], None] = lambda: None) -> None:
        """`appended` is called for every stored event."""
        self._connection = connection
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
        found = map(event_of, await self._connection.execute(_LATEST_BLOCKERS, these))
        return tuple(sorted(found, key=lambda event: event.id))

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

    async def _read(self, statement: Select[Any], **these: Any) -> tuple[TimelineEvent, ...]:
        return tuple(map(event_of, await self._connection.execute(statement, these)))


def event_row(event: TimelineEvent) -> dict[str, Any]:
    """Return the row of an event, which the database numbers."""
    return {name: getattr(event, name) for name in _STORED} | {"data": dict(event.data) or None}


def event_of(row: Row[Any]) -> TimelineEvent:
    """Read an event from its row."""
    reason = None if row.reason is None else Reason(row.reason)
    return TimelineEvent(**(dict(row._mapping) | {"reason": reason, "data": row.data or {}}))
