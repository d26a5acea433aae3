"""Shorten stored waits at the start of a process, after a clock that was ahead."""

from datetime import timedelta

import structlog

from queue_engine.core.database.instants import InstantKind, clamp_instants, clock_offset
from queue_engine.core.jobs.idempotency import KEPT
from queue_engine.effects.context import Change

_log = structlog.get_logger("imq.waits")

_LONGEST_WAIT = timedelta(hours=1)
"""The longest wait that IMQ stores; a longer one was stored while the clock was wrong."""

_CLOCKS_AGREE = timedelta(minutes=1)
"""How far this machine's clock may differ from PostgreSQL's."""


async def shorten_waits(change: Change, lease: timedelta) -> None:
    """Shorten waits that were stored while the clock was ahead, unless the current clock may be wrong itself.

    `lease` is the longest lease.
    """
    if (difference := await clock_offset(change.tx.connection, change.now)) > _CLOCKS_AGREE:
        _log.warning("clock_differs_from_the_databases", seconds=difference.total_seconds())
        return
    bounds = {
        InstantKind.PAST: timedelta(0),
        InstantKind.LEASE: lease,
        InstantKind.WAIT: _LONGEST_WAIT,
        InstantKind.KEPT: KEPT,
    }
    if shortened := await clamp_instants(change.tx.connection, change.now, bounds):
        _log.warning("waits_shortened", instants=shortened)
