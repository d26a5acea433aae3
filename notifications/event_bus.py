"""The event bus: it passes events of queues and entries to subscribers in this process.

It carries no state and promises no delivery: the timeline in the database is the record. A listener that fails or is
slow harms neither the publisher nor the other listeners.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Self

import structlog

from queue_engine.core.observability.progress import ProgressEvent
from queue_engine.domain.timeline_event import TimelineEvent

_log = structlog.get_logger(__name__)


Event = TimelineEvent | ProgressEvent
"""What the bus carries: what happened, and how far what is under way has come."""

Subscriber = Callable[[Event], None]


class EventBus:
    """Hands each published event to every subscriber, in the order of their subscription, at once."""

    def __init__(self) -> None:
        self._subscribers: dict[object, Subscriber] = {}

    def subscribe(self, callback: Subscriber) -> Callable[[], None]:
        """Call `callback` with every event from now on. Returns the function that ends it; ending twice is no error."""
        key = object()
        self._subscribers[key] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    def publish(self, event: Event) -> None:
        """Tell everybody. Never raises for a subscriber's fault: that is logged."""
        for callback in tuple(self._subscribers.values()):
            try:
                callback(event)
            except Exception:
                _log.exception("event_subscriber_failed", event_type=type(event).__name__)

    def stream(self, *, buffer: int = 256) -> "EventStream":
        """The events from now on, to be read with `async for` inside `async with`."""
        return EventStream(self, buffer)


class EventStream(AsyncIterator[Event]):
    """Events in order, at most `buffer` (one or more) of them waiting.

    `missed` counts those that nobody read in time: the oldest are dropped for newer ones.
    """

    def __init__(self, bus: EventBus, buffer: int) -> None:
        self._events: asyncio.Queue[Event] = asyncio.Queue(max(1, buffer))
        self._unsubscribe = bus.subscribe(self._put)
        self.missed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __anext__(self) -> Event:
        return await self._events.get()

    def close(self) -> None:
        """Listen no longer."""
        self._unsubscribe()

    def _put(self, event: Event) -> None:
        if self._events.full():
            self._events.get_nowait()
            self.missed += 1
        self._events.put_nowait(event)
