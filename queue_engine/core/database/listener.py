"""Wake on other processes' commits, by PostgreSQL's LISTEN and NOTIFY, without polling every second.

A notification is sent within the transaction that made something due, so that it arrives with the commit or not at all.
It may be lost with a connection; therefore loops still poll, and check everything after a new connection. SQLite has no
notifications: there, one process does all.

Each notification says whether its sender does the work itself. What a web stored is work for the first worker: the one
with a lock of the session that listens, which PostgreSQL releases when that process ends or dies. Every other worker
leaves the work to another process, and checks later (`wakeup`).
"""

from collections.abc import Callable, Collection
from contextlib import aclosing
from datetime import timedelta
from typing import TYPE_CHECKING
from uuid import uuid4

import structlog
from sqlalchemy import String, bindparam, func, select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Database
from queue_engine.core.timing.backoff import Backoff, wait
from queue_engine.core.timing.clock import Clock

if TYPE_CHECKING:
    import psycopg

_log = structlog.get_logger("imq.listener")

_CHANNEL = "imq"
_NOTIFY = select(func.pg_notify(_CHANNEL, bindparam("note", type_=String)))
_WORKS = ("web", "worker")
_FIRST = "SELECT pg_try_advisory_lock(20261, 0)"
_FIRST_SECONDS = 10.0
"""How often a worker tries to become the first one."""

_PROOF = "proof"
_PROOF_SECONDS = 10.0
"""How long a notification to itself may take before notifications count as not arriving."""

_RECONNECT = Backoff(base=timedelta(seconds=1), maximum=timedelta(seconds=30))


class DatabaseNotifier:
    """Notifies other processes, and recognizes its own notifications. Callers choose the topics."""

    works = False
    """Whether this process does the work that it announces: a worker does, a web leaves it to the first worker."""

    def __init__(self) -> None:
        self._name = uuid4().hex

    async def send(self, connection: AsyncConnection, topics: Collection[str]) -> None:
        """Notify every listening process of these topics when this transaction commits; a no-op on SQLite."""
        if topics and connection.dialect.name == "postgresql":
            await connection.execute(_NOTIFY, {"note": " ".join([self._name, _WORKS[self.works], *sorted(topics)])})

    def parse(self, note: str) -> tuple[bool, bool, tuple[str, ...]]:
        """Return whether a notification is this process's own, whether its sender does the work, and its topics."""
        name, works, *topics = note.split(" ")
        return name == self._name, works == _WORKS[True], tuple(topics)


class DatabaseListener:
    """One connection beside the pool's that listens, and is replaced whenever it is lost."""

    def __init__(
        self,
        database: Database,
        notifier: DatabaseNotifier,
        notify: Callable[..., None],
        *,
        clock: Clock,
        random: Callable[[], float],
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        """`notify` is called with each topic of another process, and with None when anything may have happened; with
        `by_other` True if another process does the work first.

        `lost` is called when the connection was lost. `random` gives numbers in [0, 1) for jitter.
        """
        self.connected = False
        """Whether notifications are known to arrive: not while the connection is lost, and never behind a pooler that
        gives the statements of a session to several connections. While it is False, loops poll often."""
        self._database = database
        self._notifier = notifier
        self._notify = notify
        self._clock = clock
        self._random = random
        self._lost = lost
        self._failures = 0
        self._first = False
        """Whether this is the worker that does at once what a web stored."""

    async def run(self) -> None:
        """Listen until cancelled."""
        # Imported when needed: on SQLite PostgreSQL's driver is never loaded.
        import psycopg

        while True:
            try:
                await self._listen()
            except (psycopg.Error, SQLAlchemyError, OSError) as error:
                self._failures += 1
                _log.warning("listener_lost", attempt=self._failures, exc_info=error)
            if self.connected:
                self.connected = False
                self._lost()
                self._notify(None, by_other=True)
            await self._clock.sleep(wait(_RECONNECT, max(0, self._failures - 1), random=self._random))

    async def _listen(self) -> None:
        import psycopg

        connection = await psycopg.AsyncConnection.connect(**self._database.connect_args, autocommit=True)
        try:
            await connection.execute(f"LISTEN {_CHANNEL}")
            # By another connection: sent on this one, it would arrive even if those of other processes do not.
            async with self._database.transaction() as another:
                await self._notifier.send(another, [_PROOF])
            await self._attend(connection, _PROOF_SECONDS, proof=True)
            if not self.connected:
                _log.warning("notes_do_not_arrive", advice="connect without a pooler, or give each session its own")
            # Behind a pooler a lock would outlive the session that asked for it.
            while self.connected and self._notifier.works and not await self._becomes_first(connection):
                await self._attend(connection, _FIRST_SECONDS)
            await self._attend(connection, None)
        finally:
            self._first = False
            await connection.close()

    async def _becomes_first(self, connection: "psycopg.AsyncConnection") -> bool:
        row = await (await connection.execute(_FIRST)).fetchone()
        self._first = row is not None and bool(row[0])
        return self._first

    async def _attend(
        self, connection: "psycopg.AsyncConnection", seconds: float | None, *, proof: bool = False
    ) -> None:
        async with aclosing(connection.notifies(timeout=seconds)) as notes:
            async for note in notes:
                self._receive(note.payload)
                if proof and self.connected:
                    return

    def _receive(self, note: str) -> None:
        own, works, topics = self._notifier.parse(note)
        if not own:
            for topic in topics:
                self._notify(topic, by_other=works or not self._first)
        elif not self.connected:
            # No notification is missed from here on; earlier work has to be polled.
            log = _log.debug if self._failures else _log.info
            self.connected, self._failures = True, 0
            self._notify(None, by_other=True)
            log("listening_to_other_processes")
