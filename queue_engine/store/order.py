"""Order keys of a queue: stored once, and independent of clocks and settings.

The key is a rank in milliseconds: the arrival of the entry, and the delay of its share, less the head start of its
priority. So a waiting entry
ages without a write: a later arrival overtakes only entries that arrived less than its head start before. Within a
priority the first arrival is first. The entry being processed is before all others.

Hotfixes come before the rank. Arrivals never go back in time within a queue, even if the clock does. A preempting
hotfix makes the front `pending` again, with its head still bound; that entry continues later.
"""

from datetime import UTC, datetime, timedelta

from sqlalchemy import and_, bindparam, case, func, select

from queue_engine.core.database.database import TableStore
from queue_engine.store.tables import entries

NOT_READY = entries.c.unmet.is_not(None)
"""Whether the entry waits outside the queue for what its pull request lacks."""

IN_ORDER = (
    case((NOT_READY, 1), else_=0),
    case((entries.c.run_id.is_(None), 1), else_=0),
    entries.c.hotfix.desc(),
    entries.c.rank,
    entries.c.seq,
)
"""The order of a queue, front first; entries that are not ready are behind all that are in the queue."""

HELD = entries.c.held_since.is_not(None)
"""Whether IMQ announced that the entry waits for room."""

WITH_ROOM = and_(~HELD, ~NOT_READY)
"""Whether the entry is in the queue and has room, by the last announcement."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_IN_QUEUE = and_(entries.c.queue_id == bindparam("its_queue"), ~NOT_READY)
_ALIKE = and_(_IN_QUEUE, entries.c.priority == bindparam("its_priority"))
_EARLIER = entries.c.seq < bindparam("its_seq")

_DELAY = case((entries.c.priority > 0, 0), else_=entries.c.share_delay)
_UNDELAYED = entries.c.rank - _DELAY
"""The rank that an entry would have if it were alone in its share."""

_LAST_ARRIVED = select(func.max(entries.c.arrived)).where(_IN_QUEUE)
_LAST_ALIKE = select(func.max(_UNDELAYED)).where(_ALIKE)
_BETWEEN = select(
    select(func.max(_UNDELAYED)).where(_ALIKE, _EARLIER).scalar_subquery(),
    select(func.min(_UNDELAYED)).where(_ALIKE, ~_EARLIER, entries.c.seq != bindparam("its_seq")).scalar_subquery(),
)


class Order(TableStore):
    """Computes order keys, on one connection."""

    async def arrival(self, queue_id: int, at: datetime) -> int:
        """Return the arrival for this instant, in milliseconds: never before earlier arrivals in the queue."""
        latest = (await self._connection.execute(_LAST_ARRIVED, {"its_queue": queue_id})).scalar_one()
        return max(milliseconds(at), latest or 0)

    async def last(self, queue_id: int, arrived: int, priority: int, ageing: timedelta) -> int:
        """Return the undelayed rank of a new entry behind its priority; `ageing` is the head start of one point."""
        alike = {"its_queue": queue_id, "its_priority": priority}
        lowest = (await self._connection.execute(_LAST_ALIKE, alike)).scalar_one()
        return _within(lowest, ranked(arrived, priority, ageing), None)

    async def between(self, queue_id: int, arrived: int, seq: int, priority: int, ageing: timedelta) -> int:
        """Return the rank without a delay of entry `seq`, which arrived then, between its neighbours of this priority.

        The bounds matter only if the head start of a priority changed while the entries waited.
        """
        alike = {"its_queue": queue_id, "its_priority": priority, "its_seq": seq}
        lowest, highest = (await self._connection.execute(_BETWEEN, alike)).one()
        return _within(lowest, ranked(arrived, priority, ageing), highest)


def milliseconds(at: datetime) -> int:
    """Convert an instant to milliseconds since 1970, the unit of ranks."""
    return round((at - _EPOCH) / _MILLISECOND)


def ranked(arrived: int, priority: int, ageing: timedelta) -> int:
    """Compute the rank of an entry with this priority, in milliseconds; the lowest comes first."""
    return arrived - round(priority * ageing / _MILLISECOND)


def delayed(rank: int, priority: int, share_delay: int) -> int:
    """Return the rank with the delay of the entry's share, which a priority above 0 overrides."""
    return rank if priority > 0 else rank + share_delay


def _within(lowest: int | None, rank: int, highest: int | None) -> int:
    rank = rank if lowest is None else max(rank, lowest)
    return rank if highest is None else min(rank, highest)
