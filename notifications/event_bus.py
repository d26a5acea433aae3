"""The event bus: it passes events of queues and entries to subscribers in this process.

It carries no state and promises no delivery: the timeline in the database is the record. A listener that fails or is
slow harms neither the publisher nor the other listeners.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

import structlog

from queue_engine.core.observability.progress import ProgressEvent
from queue_engine.domain.model import TimelineEvent

_log = structlog.get_logger(__name__)


Event = TimelineEvent | ProgressEvent
"""Events that the bus of a process carries."""

E = TypeVar("E")


class EventBus(Generic[E]):
    """Calls every subscriber with each published event, in the order of subscription."""

    def __init__(self) -> None:
        self._subscribers: dict[object, Callable[[E], None]] = {}

    def subscribe(self, callback: Callable[[E], None]) -> Callable[[], None]:
        """Call `callback` with every event from now on. Returns the function that ends it; ending twice is no error."""
        key = object()
        self._subscribers[key] = callback

        def unsubscribe() -> None:
            self._subscribers.pop(key, None)

        return unsubscribe

    def publish(self, event: E) -> None:
        """Call all subscribers. An exception of a subscriber is logged, and never raised."""
        for callback in tuple(self._subscribers.values()):
            try:
                callback(event)
            except Exception:
                _log.exception("event_subscriber_failed", event_type=type(event).__name__)

    def stream(self, *, buffer: int = 256) -> "EventStream[E]":
        """Return a stream of the events from now on, for `async for` inside `async with`."""
        return EventStream(self, buffer)


class EventStream(AsyncIterator[E]):
    """Buffers at most `buffer` (one or more) events for one reader.

    When the buffer is full, the oldest event is dropped; `missed` counts these.
    """

    def __init__(self, bus: EventBus[E], buffer: int) -> None:
        self._events: asyncio.Queue[E] = asyncio.Queue(max(1, buffer))
        self._unsubscribe = bus.subscribe(self._put)
        self.missed = 0

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __anext__(self) -> E:
        return await self._events.get()

    def close(self) -> None:
        """End the subscription."""
        self._unsubscribe()

    def _put(self, event: E) -> None:
        if self._events.full():
            self._events.get_nowait()
            self.missed += 1
        self._events.put_nowait(event)
