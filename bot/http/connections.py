"""Track all connections, and choose which to drop when they or their bytes are too many."""

from typing import Protocol

import structlog

from bot.http.limits import Limits

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
        """Forget a connection."""
        self._open.pop(client, None)
