"""Wake the loops of this process after a commit that may have given them work.

A notification may have a topic; then only the loops that listen for it wake. In a burst a needless wakeup costs more
than the stored work.

Wakeups may be lost between processes: loops check every ten seconds, and every second while PostgreSQL's notifications
are not known to arrive. The listener tests that by notifications to itself over another connection.

A commit wakes the loops of every worker, and one of them does the work: the worker that committed, or, if a web did,
the first worker. The loops of the others wait before they check whether it is done, and twice as long each time that it
was, up to a second. They take only work that has been due for as long. Four workers that shared all of the work took
twice as much processor time as one.
"""

import asyncio
from collections.abc import Collection
from datetime import timedelta

_FIRST_DELAY, _LONGEST_DELAY = timedelta(milliseconds=250), timedelta(seconds=1)
"""How long a loop leaves work to another process, first and at most."""


class WakeupListener:
    """Wakes one loop: a wakeup is remembered until the loop waits, so that none between two waits is lost."""

    def __init__(self, *, shared: bool = False) -> None:
        """With `shared`, one of several processes does the work that a wakeup announces."""
        self._event, self._own = asyncio.Event(), asyncio.Event()
        self._stored = self._left_to_others = False
        self.only_ended = False
        """Whether this process stored no work before the last wakeup: some ended, so that other work may be due."""
        self.delay = _FIRST_DELAY if shared else timedelta(0)
        """How long to leave work to the process that does it first, unless this process wakes the loop meanwhile."""

    def wake(self, *, by_other: bool = False, ended: bool = False) -> None:
        """Remember a wakeup: work for this process, or work that another one does first, or the end of some."""
        self._event.set()
        if not by_other:
            self._own.set()
            self._stored = self._stored or not ended

    def forget_own(self) -> bool:
        """Forget wakeups by this process for shared work: a read that begins now sees it. Whether there were any."""
        if not self.delay or not self._own.is_set():
            return False
        self._clear()
        return True

    async def wait(self, at_most: timedelta) -> bool | None:
        """Wait for a wakeup, or `at_most` of real time; whether it was for this process: others' work may be done.

        None if no wakeup came.
        """
        try:
            woken = await _set_within(self._event, at_most)
            self._left_to_others = bool(self.delay) and woken and not self._own.is_set()
            if self._left_to_others:
                self._left_to_others = not await _set_within(self._own, self.delay)
            self.only_ended = self._own.is_set() and not self._stored
            return not self._left_to_others if woken else None
        finally:
            self._clear()

    def served(self, *, found: bool) -> None:
        """Adapt the delay to whether there was work since the last wait."""
        if self._left_to_others:
            self.delay = _FIRST_DELAY if found else min(_LONGEST_DELAY, self.delay * 2)

    def _clear(self) -> None:
        self._event.clear()
        self._own.clear()
        self._stored = False


async def _set_within(event: asyncio.Event, at_most: timedelta) -> bool:
    try:
        async with asyncio.timeout(max(0.0, at_most.total_seconds())):
            return await event.wait()
    except TimeoutError:
        return False


class Wakeup:
    """Wakes all listeners of a topic."""

    def __init__(self) -> None:
        self._listeners: list[tuple[WakeupListener, Collection[str] | None]] = []

    def waiter(self, topics: Collection[str] | None = None, *, shared: bool = False) -> WakeupListener:
        """Add a listener for these topics, or for all; notifications without a topic wake every listener."""
        listener = WakeupListener(shared=shared)
        self._listeners.append((listener, topics))
        return listener

    def notify(self, topic: str | None = None, *, by_other: bool = False, ended: bool = False) -> None:
        """Wake the waiters for this topic; without one, all.

        With `by_other`, another process does the work first. With `ended`, work ended here, and none was stored.
        """
        for listener, topics in self._listeners:
            if topic is None or topics is None or topic in topics:
                listener.wake(by_other=by_other, ended=ended)
