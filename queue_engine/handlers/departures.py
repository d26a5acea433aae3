"""Complete the departures from the timeline, with each sweep.

Running code stores each departure with its event. This job finds the events of earlier releases, and of processes of
the previous release that run beside this one during an upgrade.
"""

from datetime import UTC, datetime, timedelta

import structlog

from queue_engine.effects.context import Engine
from queue_engine.effects.departures import record_departure

PART = "departures"
"""Name of this part of the reconciler's state."""

_BATCH = 50
_OVERLAP = timedelta(hours=1)
"""Events that another process commits late, or by a clock that is behind, are looked for again."""
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)

_log = structlog.get_logger("imq.departures")


async def complete_departures(engine: Engine) -> None:
    """Derive the missing departures, the oldest first: one that waited behind others needs theirs."""
    async with engine.store.reading() as tx:
        last = await tx.sweeps.last(PART)
    since, added = _NEVER if last is None else last - _OVERLAP, 0
    while not engine.ending.is_set():
        async with engine.change() as change:
            found = await change.tx.departures.missing(since, at_most=_BATCH)
            for event in found:
                await record_departure(change.tx, event, None)
            since = found[-1].at if found else change.now
            await change.tx.sweeps.done(PART, since)
        added += len(found)
        if not found:
            break
    if added:
        _log.info("departures_completed", departures=added)
