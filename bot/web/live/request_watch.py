"""Watch pending requests for the event streams of this process, whichever process works on them.

One monitor of the shared core polls the database for each watched request: after a second, then ever less often. An
event of the request's pull request has it polled at once.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from notifications.event_bus import EventBus, EventStream
from queue_engine.core.concurrency.monitor import Monitor
from queue_engine.core.timing.clock import Clock
from queue_engine.domain.model import TimelineEvent
from queue_engine.queries.requests import RequestState, RequestStatus, load_request
from queue_engine.store import Store

MAX_WATCHED = 1000
"""Requests that one process watches; the scripts of further pages poll by themselves."""

TOPIC = "requests"
"""The topic that wakes the loop of the watch."""


class RequestWatch:
    """Polls the pending requests that somebody watches, and passes on each change."""

    def __init__(
        self, store: Store, clock: Clock, random: Callable[[], float], *, changed: Callable[[], None] = lambda: None
    ) -> None:
        """`changed` is called when a poll may be due sooner."""
        self._store, self._clock = store, clock
        self._bus = EventBus[RequestStatus]()
        self._known: dict[str, RequestStatus] = {}
        self._watched: Counter[str] = Counter()
        self._monitor = Monitor[str](self._poll, pending=self._is_pending, clock=clock, random=random, changed=changed)

    @property
    def watched(self) -> int:
        """How many requests are watched."""
        return len(self._watched)

    @contextmanager
    def open(self, requests: Sequence[RequestStatus]) -> Iterator[EventStream[RequestStatus]]:
        """Watch requests until the end of the context; the stream has each change of any watched request."""
        stream = self._bus.stream(buffer=max(1, 2 * len(requests)))
        chosen = []
        for each in requests:
            if self.watched >= MAX_WATCHED and each.id not in self._watched:
                continue
            chosen.append(each)
            self._watched[each.id] += 1
            self._known.setdefault(each.id, each)
            self._monitor.start(each.id)
        try:
            yield stream
        finally:
            stream.close()
            for each in chosen:
                self._release(each.id)

    def happened(self, event: TimelineEvent) -> None:
        """Poll the watched requests of an event's pull request now."""
        for request_id, known in list(self._known.items()):
            its_own = known.repository is not None and known.repository.id == event.repository_id
            if its_own and known.number == event.number:
                self._monitor.reset(request_id)

    async def run_due(self) -> bool:
        """Do the polls that are due; whether there were any."""
        return await self._monitor.run_due()

    async def next_due(self) -> datetime | None:
        """Return when the next poll is due; None if nothing is watched."""
        return await self._monitor.next_due()

    async def close(self) -> None:
        """End the polls under way."""
        await self._monitor.cancel()

    def _release(self, request_id: str) -> None:
        self._watched[request_id] -= 1
        if self._watched[request_id] <= 0:
            del self._watched[request_id]
            self._known.pop(request_id, None)
            self._monitor.stop(request_id)

    def _is_pending(self, request_id: str) -> bool | None:
        known = self._known.get(request_id)
        return None if known is None else known.pending

    async def _poll(self, request_id: str) -> None:
        async with self._store.reading() as tx:
            found = await load_request(tx, request_id, self._clock.now())
        known = self._known.get(request_id)
        if known is None:
            return
        # A request that asked IMQ for nothing is forgotten, and nothing more will happen.
        found = found or replace(known, state=RequestState.DONE)
        if found != known:
            self._known[request_id] = found
            self._bus.publish(found)
