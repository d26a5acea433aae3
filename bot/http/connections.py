"""Track all connections, and choose which to drop when they or their bytes are too many.

While all slots are taken, a reader gets one from the reader who has most, if it then still has no more than that one.
So slots are shared as evenly as readers want them (max-min fairness). The former answer ends, and its client polls.
"""

import asyncio
import resource
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Protocol

import structlog

_FILES = 1024
"""Open files that a process requests from the system, if its limit is lower."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of all clients together, and of each client."""

    connections: int = 512
    accepted_at_once: int = 128
    """Connections that are accepted at once."""
    held_bytes: int = 64 * 1024 * 1024
    """Bytes of requests in memory, over all connections. Two deliveries of the largest size and much else fit in."""
    unfinished_bytes: int = 8 * 1024 * 1024
    """The part of them that requests may have which are not complete, and so not verified. One of these requests,
    the largest, does not count: with all of them a process stays below the smallest limit that our manifests set."""
    header: timedelta = timedelta(seconds=10)
    """From the connection, or the first byte of a later request, to the end of its header (as Go's ReadHeaderTimeout
    and hyper's header_read_timeout count it)."""
    idle: timedelta = timedelta(seconds=75)
    """Between two requests. Longer than proxies keep a connection (nginx and AWS: 60 s), so that it is they who close
    it, never this server while a request is on its way."""
    answer: timedelta = timedelta(seconds=30)
    """For a client to take its answer."""
    lingering: timedelta = timedelta(seconds=2)
    """How long the rest of a refused body is read and thrown away, so that its sender sees the answer."""


def limits_for(files: int) -> Limits:
    """Limits for a process that may have this many files open.

    At least three eighths are left for the database (19 files of SQLite, 6 connections to PostgreSQL), calls to
    GitHub (8 at once for each installation) and the process itself (about 20).
    """
    usual = Limits()
    return Limits(
        connections=min(usual.connections, files // 2), accepted_at_once=min(usual.accepted_at_once, files // 8)
    )


def file_limit() -> int:
    """How many files this process may have open; raised first to what a server needs, where the system lets it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = _number(soft), _number(hard)
    if soft < _FILES and soft < hard:
        soft = min(_FILES, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    return soft


def _number(limit: int) -> int:
    return 2**31 if limit == resource.RLIM_INFINITY else limit


log = structlog.get_logger(__name__)


class Client(Protocol):
    """One connection."""

    @property
    def held(self) -> int:
        """Return the bytes of its request in memory."""

    @property
    def waits(self) -> bool:
        """Whether the server waits for this client to send or receive bytes."""

    def drop(self) -> None:
        """End the connection at once."""


class Connections:
    """The open connections. `opened`, `progressed` and `closed` tell of each; a dropped connection is closed, too.

    A client that sends its request in one go waits for milliseconds. So of too many connections the one that waits
    longest is dropped. Of too many bytes it is the one that waits longest among those with at least their share: with
    the default limits a request of less than 16 KiB is never dropped for others' bytes.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._open: dict[Client, None] = {}
        self._held = 0

    def __len__(self) -> int:
        return len(self._open)

    def opened(self, client: Client) -> None:
        """Count a new connection. If there are too many and no other one waits for its client, drop it."""
        self._open[client] = None
        if len(self._open) > self._limits.connections:
            victim = next((each for each in self._open if each.waits), client)
            log.debug("connection_dropped", why="too many connections", open=len(self._open))
            victim.drop()

    def progressed(self, client: Client) -> None:
        """Record that the client sent or received bytes: it now waits for the shortest time."""
        if client in self._open:
            del self._open[client]
            self._open[client] = None

    def received(self, size: int) -> None:
        """Count bytes that a client sent; if there are too many, drop connections.

        What is not verified yet has a small budget. The largest request is left out of it, since a delivery may be
        larger than the budget.
        """
        self._held += size
        while self._held > self._limits.unfinished_bytes:
            waiting = [each for each in self._open if each.waits and each.held]
            unfinished = sum(each.held for each in waiting)
            largest = max((each.held for each in waiting), default=0)
            fits = self._held <= self._limits.held_bytes and unfinished - largest <= self._limits.unfinished_bytes
            if fits or not waiting:
                return
            victim = next(each for each in waiting if each.held * len(waiting) >= unfinished)
            log.debug("connection_dropped", why="too many bytes", held=self._held, its=victim.held)
            victim.drop()

    def released(self, size: int) -> None:
        """Count bytes that are no longer in memory."""
        self._held -= size

    def closed(self, client: Client) -> None:
        self._open.pop(client, None)


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
