"""Share a bounded number of slots for long answers, so that no client keeps others from having one.

While all slots are taken, a reader gets one from the reader who has most, if it then still has no more than that one.
So slots are shared as evenly as readers want them (max-min fairness). The former answer ends, and its client polls.
"""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager


class SlotRefused(Exception):
    """There is no slot. `own` is how many the reader has, if that is the reason; None if all are taken."""

    def __init__(self, own: int | None) -> None:
        super().__init__("no slot is left")
        self.own = own


class SharedSlots:
    """Slots of readers, each of whom has a limit of its own."""

    def __init__(self, most: int, of_reader: int) -> None:
        self._most, self._of_reader = most, of_reader
        self._taken: defaultdict[str, list[asyncio.Event]] = defaultdict(list)

    @property
    def taken(self) -> int:
        """How many slots are taken."""
        return sum(map(len, self._taken.values()))

    @contextmanager
    def take(self, reader: str, *, limited: bool = True) -> Iterator[asyncio.Event]:
        """Take a slot until the end of the context; the event is set if another reader gets it before.

        With `limited=False` the reader stands for many persons, and has no limit of its own. Raises SlotRefused.
        """
        slot = self._slot(reader, limited)
        try:
            yield slot
        finally:
            self._free(reader, slot)

    def _slot(self, reader: str, limited: bool) -> asyncio.Event:
        own = len(self._taken.get(reader, ()))
        if limited and own >= self._of_reader:
            raise SlotRefused(own)
        if self.taken >= self._most:
            richest = max(self._taken, key=lambda each: len(self._taken[each]))
            if len(self._taken[richest]) <= own + 1:
                raise SlotRefused(None)
            oldest = self._taken[richest][0]
            self._free(richest, oldest)
            oldest.set()
        slot = asyncio.Event()
        self._taken[reader].append(slot)
        return slot

    def _free(self, reader: str, slot: asyncio.Event) -> None:
        slots = self._taken.get(reader, [])
        if slot in slots:
            slots.remove(slot)
        if not slots:
            self._taken.pop(reader, None)
