"""The feed: it reads the timeline once for all event streams of this process, whichever process wrote the events.

The loop of the process wakes the feed: on PostgreSQL a notification of another process does, too. Without readers the
feed reads nothing. No reader is waited for: each has a bounded buffer, which counts the events that it dropped.

PostgreSQL numbers events before their transactions end, so an event may become visible after one with a higher id. The
feed remembers each missing id until it appears, or `_SETTLED` passed. The mark of an event is the id up to which no id
is missing: a reader that continues after its last mark misses nothing, and may read some events twice.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from notifications.event_bus import EventBus, EventStream
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import TimelineEvent
from queue_engine.store import Store

BUFFER = 256
"""Events that wait for one reader."""
MAX_REPLAYED = 1000
"""Events that a reader who continues is given; who missed more reads the pages again."""

_BATCH = 500
_WINDOW = 200
"""Ids before the newest event in which the feed looks for missing ones when it begins."""
_MAX_MISSING = 1000
_SETTLED = timedelta(minutes=1)
"""How long a transaction may take from its event to its commit. IMQ's own take milliseconds."""


@dataclass(frozen=True, slots=True)
class FeedEvent:
    """An event of the timeline. `mark` is the id after which a reader may continue once it has this event."""

    event: TimelineEvent
    mark: int


@dataclass(slots=True)
class _Position:
    """What the feed has read: all events up to `newest` but the missing ones, with the instant that each was missed."""

    newest: int
    missing: dict[int, datetime] = field(default_factory=dict)

    @property
    def mark(self) -> int:
        return min(self.missing) - 1 if self.missing else self.newest

    def read(self, event_id: int, now: datetime) -> None:
        """Count an event as read, and the ids that it skipped as missing."""
        self.missing.pop(event_id, None)
        if event_id > self.newest:
            skipped = range(max(self.newest + 1, event_id - _MAX_MISSING), event_id)
            self.missing |= dict.fromkeys(skipped, now)
            self.newest = event_id

    def settle(self, now: datetime) -> None:
        """Give up the ids that were missing for too long, and the lowest of too many."""
        kept = sorted((each, at) for each, at in self.missing.items() if timedelta(0) <= now - at < _SETTLED)
        self.missing = dict(kept[-_MAX_MISSING:])


@dataclass(frozen=True, slots=True)
class FeedReader:
    """One reader of the feed. `replayed` are the events since it last read, `stream` has the later ones."""

    mark: int
    """Where the reader begins: to continue here misses nothing."""
    replayed: Sequence[FeedEvent]
    missed: bool
    """Whether there were more events than are replayed."""
    stream: EventStream[FeedEvent]


class Feed:
    """Tails the timeline while somebody reads."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._bus = EventBus[FeedEvent]()
        self._events = EventBus[TimelineEvent]()
        self._lock = asyncio.Lock()
        self.readers = 0
        """How many readers there are."""
        self._position: _Position | None = None

    def subscribe(self, callback: Callable[[TimelineEvent], None]) -> None:
        """Call `callback` with every event that is passed to readers."""
        self._events.subscribe(callback)

    @asynccontextmanager
    async def open(self, after: int | None = None, *, buffer: int = BUFFER) -> AsyncIterator[FeedReader]:
        """Read from now on, or from after the event with the id `after`; no event in between is lost."""
        # Counted first, so that the position is kept from now on.
        self.readers += 1
        try:
            async with self._lock:
                position = await self._catch_up()
                stream = self._bus.stream(buffer=buffer)
                mark, newest, missing = position.mark, position.newest, frozenset(position.missing)
            async with stream:
                replayed, missed = await self._replay(after, mark, newest, missing)
                yield FeedReader(mark, replayed, missed, stream)
        finally:
            self.readers -= 1

    @asynccontextmanager
    async def following(self) -> AsyncIterator[None]:
        """Have subscribers called with every event from now on."""
        self.readers += 1
        try:
            async with self._lock:
                await self._catch_up()
            yield
        finally:
            self.readers -= 1

    async def run_due(self) -> bool:
        """Pass new events to the readers. Never says that there is more to do: the loop waits for a wakeup."""
        async with self._lock:
            if self.readers:
                await self._catch_up()
            else:
                self._position = None
        return False

    async def next_due(self) -> datetime | None:
        """Return when missing events are looked for again; None if none is missing."""
        position = self._position
        return None if position is None or not position.missing else self._clock.now() + timedelta(seconds=1)

    async def _catch_up(self) -> _Position:
        position = self._position
        if position is None:
            position = self._position = await self._begin()
            return position
        while True:
            async with self._store.reading() as tx:
                found = await tx.timeline.since(position.newest, also=tuple(position.missing), limit=_BATCH)
            now = self._clock.now()
            for event in found:
                position.read(event.id, now)
                self._events.publish(event)
                self._bus.publish(FeedEvent(event, position.mark))
            position.settle(now)
            if len(found) < _BATCH:
                return position

    async def _begin(self) -> _Position:
        """Begin at the newest event. A transaction under way may still add an event before it."""
        latest = await self._store.read(lambda tx: tx.timeline.latest(_WINDOW))
        if not latest:
            return _Position(0)
        now, known = self._clock.now(), {event.id for event in latest}
        first = max(latest[-1].id, latest[0].id - _MAX_MISSING)
        missing = {each: now for each in range(first, latest[0].id) if each not in known}
        return _Position(latest[0].id, missing)

    async def _replay(
        self, after: int | None, mark: int, newest: int, missing: frozenset[int]
    ) -> tuple[Sequence[FeedEvent], bool]:
        """Read what happened after an event, but for the events that the stream has; and whether that is not all."""
        if after is None:
            return (), False
        if after > newest:
            # The reader knows a database that was replaced since.
            return (), True
        found = await self._store.read(lambda tx: tx.timeline.since(after, limit=MAX_REPLAYED + 1))
        earlier = [event for event in found if event.id <= newest and event.id not in missing]
        if len(earlier) > MAX_REPLAYED:
            return (), True
        return [FeedEvent(event, min(event.id, mark)) for event in earlier], False
