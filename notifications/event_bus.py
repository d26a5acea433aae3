"""The event bus: it passes events of queues and entries to subscribers in this process.

It carries no state and promises no delivery: the timeline in the database is the record. A listener that fails or is
slow harms neither the publisher nor the other listeners.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from types import TracebackType
from typing import Generic, Self, TypeVar

import structlog

from queue_engine.config.model import Policy
from queue_engine.core.observability.progress import ProgressEvent
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.facts import CheckReport, CheckState
from queue_engine.domain.model import Entry, TimelineEvent
from queue_engine.domain.notice import Notice, NoticeKind
from queue_engine.rules.check_progress import pending_checks, tally
from queue_engine.store import Store
from queue_engine.store.outbox.items import OutboxKind

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


class BusProgress:
    """Publishes progress as an event."""

    def __init__(self, bus: EventBus[Event]) -> None:
        self._bus = bus

    async def on_progress(self, event: ProgressEvent) -> None:
        self._bus.publish(event)


class CheckRunProgress:
    """Shows in an entry's check run how many checks have reported, at the few instants that the policy names.

    Each change replaces the outbox item for the next instant, and so does the outcome. A fast entry costs no request, a
    slow one a request for each instant.
    """

    def __init__(self, store: Store, policy: Policy, clock: Clock) -> None:
        self._store = store
        self._policy = policy
        self._clock = clock

    async def on_progress(self, event: ProgressEvent) -> None:
        """Put the progress of an entry that is still being checked into the next outbox item of its check run.

        Once all have reported, the outcome follows, or the entry waits: its run failed, and another run tests it later.
        """
        async with self._store.transaction() as tx:
            entry = await tx.entries.get(event.correlation_id)
            if entry is None or (progress := tally(entry)) is None or progress[0] == progress[1]:
                return
            now = self._clock.now()
            instants = (entry.status_since + pause for pause in self._policy.progress_edits)
            due = next((instant for instant in instants if instant > now), None)
            shown = await tx.outbox.wanted(OutboxKind.CHECK_RUN, entry.repository.id, entry.number)
            if due is None or shown is None or (shown.kind, shown.head_sha) != (NoticeKind.CHECKING, entry.head_sha):
                return
            # Another transaction that changed the entry meanwhile has announced that, and the entry may have left.
            if not await tx.entries.lock(entry):
                return
            notice = shown.model_copy(
                update={"at": now, "checks": _pending_reports(entry, shown), "progress": progress}
            )
            await tx.outbox.want(OutboxKind.CHECK_RUN, entry.repository, entry.number, due=due, notice=notice)


def _pending_reports(entry: Entry, shown: Notice) -> tuple[CheckReport, ...]:
    """Return the last reports of the pending checks."""
    reports = {check.name: check for check in shown.checks}
    return tuple(
        reports.get(name) or CheckReport(name, None, CheckState.PENDING, "expected", None, None, None)
        for name in pending_checks(entry.run)
    )
