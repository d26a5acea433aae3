"""Monitor pending things: poll each at growing intervals until it is no longer pending.

`Monitor` keeps many in memory, for things that need not be watched beyond the life of their process. The state of one
is `queue_engine.core.timing.backoff`.
"""

from collections.abc import Awaitable, Callable, Hashable
from datetime import datetime
from typing import Generic, TypeVar

import structlog

from queue_engine.core.concurrency.tasks import Pool
from queue_engine.core.observability.log import logged
from queue_engine.core.timing.backoff import MONITOR, Backoff, MonitorEntry
from queue_engine.core.timing.clock import Clock

_log = structlog.get_logger("imq.monitor")

Key = TypeVar("Key", bound=Hashable)


@logged("monitor")
class Monitor(Generic[Key]):
    """Polls each pending thing when it is due, at most `concurrency` at once.

    `pending` returns by known facts whether a thing is pending: True, False, or None when it is gone. It is called at
    the start, before and after each poll, so that no poll is wasted. `poll` makes its result known to `pending`, and
    raises on an error. `given_up` is called with a key whose errors ended its monitor.
    """

    def __init__(
        self,
        poll: Callable[[Key], Awaitable[None]],
        *,
        pending: Callable[[Key], bool | None],
        clock: Clock,
        random: Callable[[], float],
        policy: Backoff = MONITOR,
        given_up: Callable[[Key, Exception], None] = lambda key, error: None,
        changed: Callable[[], None] = lambda: None,
        concurrency: int = 8,
    ) -> None:
        """`changed` is called when a poll may be due sooner than `next_due` last returned."""
        self._poll = poll
        self._pending = pending
        self._clock = clock
        self._random = random
        self._policy = policy
        self._given_up = given_up
        self._changed = changed
        self._entries: dict[Key, MonitorEntry] = {}
        self._polling: set[Key] = set()
        self._pool = Pool(concurrency, done=changed)

    def __contains__(self, key: Key) -> bool:
        """Whether this thing is being watched."""
        return key in self._entries

    def start(self, key: Key) -> bool:
        """Watch a thing from now on; whether it is watched. One that is not pending is not, nor is any twice."""
        if not self._pending(key):
            self.stop(key)
            return False
        if key not in self._entries:
            self.reset(key)
        return True

    def reset(self, key: Key) -> None:
        """Poll a thing now, and then from the shortest interval on. Starts to watch it, if need be."""
        if not self._pending(key):
            self.stop(key)
            return
        self._entries[key] = MonitorEntry.started(self._clock.now())
        self._changed()

    def stop(self, key: Key) -> None:
        """Watch a thing no longer; a poll under way changes nothing any more. Stopping twice is no error."""
        self._entries.pop(key, None)

    async def start_due(self) -> bool:
        """Begin the polls that are due, as far as there is room; whether there were any."""
        now = self._clock.now()
        due = sorted((entry.next_at, number, key) for number, (key, entry) in enumerate(self._idle()))
        begun = False
        for at, _, key in due:
            if at > now or self._pool.free <= 0:
                break
            self._polling.add(key)
            self._pool.start(self._poll_one(key, self._entries[key]))
            begun = True
        return begun

    async def run_due(self) -> bool:
        """Do the polls that are due, and wait for them; whether there were any."""
        begun = await self.start_due()
        await self._pool.join()
        return begun

    async def next_due(self) -> datetime | None:
        """When the next poll is due; None if no thing is watched, or all of them are being polled."""
        return min((entry.next_at for _, entry in self._idle()), default=None)

    async def cancel(self) -> None:
        """End the polls under way."""
        await self._pool.cancel()

    def _idle(self) -> list[tuple[Key, MonitorEntry]]:
        return [(key, entry) for key, entry in self._entries.items() if key not in self._polling]

    async def _poll_one(self, key: Key, entry: MonitorEntry) -> None:
        try:
            error = await self._poll_pending(key)
            if not self._pending(key):
                self.stop(key)
            # Reset or stopped meanwhile: that counts, and not the result of this poll.
            elif self._entries.get(key) is entry:
                self._go_on(key, entry, error)
        finally:
            self._polling.discard(key)

    async def _poll_pending(self, key: Key) -> Exception | None:
        if self._pending(key):
            try:
                await self._poll(key)
            except Exception as error:
                return error
        return None

    def _go_on(self, key: Key, entry: MonitorEntry, error: Exception | None) -> None:
        now = self._clock.now()
        if error is None:
            self._entries[key] = entry.answered(self._policy, now, self._random)
            return
        after = entry.failed(self._policy, now, self._random)
        _log.warning("poll_failed", key=str(key), errors=entry.errors + 1, final=after is None, exc_info=error)
        if after is not None:
            self._entries[key] = after
        else:
            self.stop(key)
            self._given_up(key, error)
