"""Checkpoint SQLite's log beside the writer.

SQLite does that by itself at the end of some transaction, and flushes the disk twice for it: that commit then waits
for as long as the disk takes, which on a shared one is now and then most of a second. A passive checkpoint on a
connection of its own blocks no other one. Where readers and writers leave it no gap, SQLite's own still bounds the log.
"""

import asyncio

import structlog
from sqlalchemy.ext.asyncio import AsyncEngine

_log = structlog.get_logger("imq.core.database")

_TRANSACTIONS = 64
"""So many commits later the log is carried over: a few hundred pages, a few megabytes at most."""

LOG_PAGES = 4_000
"""The log's bound, some 16 MB of 4 KiB pages: from there a commit carries it over after all. By then most of it has
been, and what is left is little."""


class Checkpoints:
    """Counts commits and begins a checkpoint now and then; one at a time."""

    def __init__(self, engine: AsyncEngine) -> None:
        """`engine` gives the connection; one that only reads will do: carrying over changes no data."""
        self._engine = engine
        self._commits = 0
        self._task: asyncio.Task[None] | None = None

    def committed(self) -> None:
        """A transaction was committed."""
        self._commits += 1
        if self._commits >= _TRANSACTIONS and (self._task is None or self._task.done()):
            self._commits = 0
            self._task = asyncio.create_task(self._checkpoint())

    async def close(self) -> None:
        """Wait for the one that is under way."""
        if self._task is not None:
            await self._task

    async def _checkpoint(self) -> None:
        try:
            async with self._engine.connect() as connection:
                # Not by `execute`, which would begin a transaction; within one no checkpoint is possible.
                raw = await connection.get_raw_connection()
                assert raw.driver_connection is not None
                await raw.driver_connection.execute_fetchall("PRAGMA wal_checkpoint(PASSIVE)")
        except Exception as error:
            # Nothing depends on it, and the next write reports a fault of the disk.
            _log.debug("checkpoint_failed", exc_info=error)
