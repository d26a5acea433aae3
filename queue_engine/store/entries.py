"""Entries: pull requests standing in queues, in order.

A position is computed from the stored order key at every read: nothing has to be shifted when an entry leaves, so
positions have no gaps by construction (P3). The key is a rank in milliseconds: when the entry came, less the head start
of its priority. So whoever waits ages without anything being written: a later arrival overtakes only those who came
less than its head start before it. Within a priority who came first is first, whatever clocks and settings do
meanwhile. Who is being processed stands before all others, whoever comes.
Every write is compare-and-set on the version.
"""

from collections.abc import Collection, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

from sqlalchemy import ColumnElement, Row, and_, case, delete, func, or_, select, true, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database import insert_into
from queue_engine.errors import StaleVersion
from queue_engine.model import PROCESSING, Entry, EntryStatus
from queue_engine.priority import Standing
from queue_engine.store.errors import DuplicateEntry
from queue_engine.store.repositories import REPOSITORY_FIELDS, repository_of
from queue_engine.store.tables import entries, queues, repositories

_STORED = frozenset(Entry.__dataclass_fields__) & frozenset(entries.c.keys())
_FIXED = frozenset({"id", "seq", "queue_id", "number", "enqueued_at", "arrived", "version", "trace", "delivery"})
"""What never changes while an entry stands; `version` only through `save`."""

_AT_FIRST: Mapping[str, Any] = {
    "status": EntryStatus.PENDING,
    "head_proved": True,
    "candidate_is_ours": False,
    "awaited_checks": [],
    "reported_checks": [],
    "suspect": False,
    "trouble": 0,
    "refusals": 0,
    "recheck": 0,
    "reruns": 0,
    "rerun_checks": [],
    "version": 1,
}
"""What every entry begins with."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

IN_ORDER = (
    case((entries.c.status.in_(sorted(PROCESSING)), 0), else_=1),
    entries.c.first.desc(),
    entries.c.rank,
    entries.c.seq,
)
"""The order of a queue, front first."""


class Entries:
    """The entries, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def add(
        self,
        *,
        queue_id: int,
        number: int,
        title: str,
        author: str,
        queued_by: str,
        queued_head: str,
        enqueued_at: datetime,
        priority: int = 0,
        ageing: timedelta = timedelta(hours=1),
        first: bool = False,
        interrupts: bool = False,
        fixes_base: bool = False,
        freeze_exempt: bool = False,
        known_behind: bool = False,
        base_tip: str | None = None,
        trace: str | None = None,
        delivery: str | None = None,
    ) -> Entry:
        """Stand a pull request at the end of its priority, pending, bound to `queued_head`.

        `ageing` is the head start of one point of priority. On PostgreSQL `Queues.give_places` comes before, so that
        arrivals are told apart.

        Raises DuplicateEntry when it stands in a queue of this repository already; the transaction stays usable.
        """
        entry_id = uuid4().hex
        arrived = max(_milliseconds(enqueued_at), await self._last_arrived(queue_id))
        added = await self._connection.execute(
            insert_into(self._connection, entries)
            .values(
                **_AT_FIRST,
                id=entry_id,
                queue_id=queue_id,
                repository_id=select(queues.c.repository_id).where(queues.c.id == queue_id).scalar_subquery(),
                number=number,
                title=title,
                author=author,
                queued_by=queued_by,
                priority=priority,
                arrived=arrived,
                rank=await self._rank(queue_id, arrived, None, priority, ageing),
                first=first,
                interrupts=interrupts,
                fixes_base=fixes_base,
                freeze_exempt=freeze_exempt,
                queued_head=queued_head,
                head=queued_head,
                known_behind=known_behind,
                base_tip=base_tip,
                enqueued_at=enqueued_at,
                status_since=enqueued_at,
                trace=trace,
                delivery=delivery,
            )
            .on_conflict_do_nothing(index_elements=["repository_id", "number"])
            .returning(entries.c.seq)
        )
        if added.scalar_one_or_none() is None:
            raise DuplicateEntry(f"pull request {number} stands in a queue already")
        entry = await self.get(entry_id)
        assert entry is not None
        return entry

    async def get(self, entry_id: str) -> Entry | None:
        """The entry with this id, if it still stands."""
        its_queue = select(entries.c.queue_id).where(entries.c.id == entry_id).scalar_subquery()
        return _only(await self._read(entries.c.queue_id == its_queue, lambda placed: placed.c.id == entry_id))

    async def find(self, repository_id: int, number: int) -> Entry | None:
        """The entry of this pull request, if it stands in a queue."""
        return _only(
            await self._read(entries.c.repository_id == repository_id, lambda placed: placed.c.number == number)
        )

    async def stands(self, repository_id: int, number: int) -> bool:
        """Whether this pull request stands in a queue: cheaper than `find`."""
        its_own = and_(entries.c.repository_id == repository_id, entries.c.number == number)
        return (await self._connection.execute(select(entries.c.seq).where(its_own))).first() is not None

    async def of_queue(self, queue_id: int, *, most: int | None = None) -> tuple[Entry, ...]:
        """The queue in order, front first; with `most` only the first so many."""
        return await self._read(
            entries.c.queue_id == queue_id, None if most is None else lambda placed: placed.c.position < most
        )

    async def of_repository(self, repository_id: int) -> tuple[Entry, ...]:
        """Every entry of a repository, queue by queue, each in order."""
        return await self._read(entries.c.repository_id == repository_id)

    async def by_head(self, repository_id: int, sha: str) -> tuple[Entry, ...]:
        """The entries for which this commit is the head, or a head not yet judged."""
        return await self._read(
            entries.c.repository_id == repository_id,
            lambda placed: or_(placed.c.head == sha, placed.c.candidate_head == sha),
        )

    async def under_way(self, repository_ids: Collection[int]) -> tuple[tuple[int, EntryStatus, str], ...]:
        """The entries of these repositories that are being updated or checked: repository, status and head."""
        found = select(entries.c.repository_id, entries.c.status, entries.c.head).where(
            entries.c.repository_id.in_(repository_ids),
            entries.c.status.in_([EntryStatus.UPDATING, EntryStatus.CHECKING]),
        )
        rows = await self._connection.execute(found)
        return tuple((row.repository_id, EntryStatus(row.status), row.head) for row in rows)

    async def count(self, queue_id: int) -> int:
        """How many entries stand in this queue."""
        counted = select(func.count()).select_from(entries).where(entries.c.queue_id == queue_id)
        return (await self._connection.execute(counted)).scalar_one()

    async def save(self, entry: Entry) -> Entry:
        """Store what changed and return the entry with its new version.

        The position returned is the one passed in: after a change of priority read the queue again.
        Raises StaleVersion when somebody else changed or removed it since it was read.
        """
        values = {name: _stored(getattr(entry, name)) for name in _STORED - _FIXED}
        changed = await self._connection.execute(
            update(entries).where(_same(entry)).values(**values, version=entry.version + 1)
        )
        if changed.rowcount != 1:
            raise _stale(entry)
        return replace(entry, version=entry.version + 1)

    async def reprioritise(self, entry: Entry, standing: Standing, ageing: timedelta) -> Entry:
        """Give a standing entry another priority and other permissions; returns it with its new position.

        It came when it came: within the new priority it stands where it would if it had joined with it. Who is being
        processed keeps the turn. Raises StaleVersion as `save` does.
        """
        rank = await self._rank(entry.queue_id, entry.arrived, entry.seq, standing.priority, ageing)
        await self.save(replace(entry, rank=rank, **vars(standing)))
        changed = await self.get(entry.id)
        assert changed is not None
        return changed

    async def _last_arrived(self, queue_id: int) -> int:
        latest = select(func.max(entries.c.arrived)).where(entries.c.queue_id == queue_id)
        return (await self._connection.execute(latest)).scalar_one() or 0

    async def _rank(self, queue_id: int, arrived: int, seq: int | None, priority: int, ageing: timedelta) -> int:
        """The rank of who came then, as number `seq` or last, between those of this priority before and behind it.

        Between them it lies anyway, unless the head start of a priority was changed while they waited.
        """
        alike = and_(entries.c.queue_id == queue_id, entries.c.priority == priority)
        earlier = true() if seq is None else entries.c.seq < seq
        bounds = select(
            select(func.max(entries.c.rank)).where(alike, earlier).scalar_subquery(),
            select(func.min(entries.c.rank)).where(alike, ~earlier, entries.c.seq != seq).scalar_subquery(),
        )
        lowest, highest = (await self._connection.execute(bounds)).one()
        rank = ranked(arrived, priority, ageing)
        rank = rank if lowest is None else max(rank, lowest)
        return rank if highest is None else min(rank, highest)

    async def keep(self, entry: Entry) -> bool:
        """Whether it stands as it was read; if so, nobody changes or removes it before this transaction ends."""
        found = await self._connection.execute(select(entries.c.seq).where(_same(entry)).with_for_update())
        return found.first() is not None

    async def remove(self, entry: Entry) -> None:
        """Take the entry out of its queue for good. Raises StaleVersion as `save` does."""
        if (await self._connection.execute(delete(entries).where(_same(entry)))).rowcount != 1:
            raise _stale(entry)

    async def _read(self, scope: ColumnElement[bool], chosen: Any = None) -> tuple[Entry, ...]:
        """Entries in order. `scope` takes in whole queues, so that ranks are positions; `chosen` picks among them."""
        place = func.row_number().over(partition_by=entries.c.queue_id, order_by=IN_ORDER)
        placed = select(entries, (place - 1).label("position")).where(scope).subquery()
        statement = (
            select(placed, queues.c.base_branch, *REPOSITORY_FIELDS[1:])
            .join(queues, queues.c.id == placed.c.queue_id)
            .join(repositories, repositories.c.id == placed.c.repository_id)
            .order_by(placed.c.queue_id, placed.c.position)
        )
        if chosen is not None:
            statement = statement.where(chosen(placed))
        return tuple(map(_entry, await self._connection.execute(statement)))


def ranked(arrived: int, priority: int, ageing: timedelta) -> int:
    """The rank of an entry with this priority; milliseconds, the lower comes first."""
    return arrived - round(priority * ageing / _MILLISECOND)


def _milliseconds(instant: datetime) -> int:
    return round((instant - _EPOCH) / _MILLISECOND)


def _same(entry: Entry) -> ColumnElement[bool]:
    return and_(entries.c.id == entry.id, entries.c.version == entry.version)


def _stale(entry: Entry) -> StaleVersion:
    return StaleVersion(f"the entry of pull request {entry.number} is no longer at version {entry.version}")


def _only(found: tuple[Entry, ...]) -> Entry | None:
    return found[0] if found else None


def _stored(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


def _entry(row: Row[Any]) -> Entry:
    values = {name: row._mapping[name] for name in _STORED}
    values["status"] = EntryStatus(row.status)
    values["awaited_checks"] = tuple(row.awaited_checks)
    values["reported_checks"] = tuple(row.reported_checks)
    values["rerun_checks"] = tuple(row.rerun_checks)
    return Entry(**values, repository=repository_of(row), base_branch=row.base_branch, position=row.position)
