"""Entries: pull requests in queues, in order; and the due queues that one transaction reads and releases together.

Each read computes positions from the stored order key (`queue_engine.store.order`). Nothing has to be shifted when an
entry leaves, so positions have no gaps by construction (P3). Every write is compare-and-set on the version.
"""

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from operator import attrgetter, itemgetter
from typing import Any, Required, TypedDict, Unpack
from uuid import uuid4

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    Row,
    Select,
    String,
    Text,
    and_,
    bindparam,
    cast,
    delete,
    func,
    select,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.concurrency.request_context import WaitCount
from queue_engine.core.database.database import DatabaseInstant, Upsert
from queue_engine.domain.consent import ConsentKind
from queue_engine.domain.errors import EntryConflict, StaleRecord
from queue_engine.domain.known_facts import SHARED_RULES
from queue_engine.domain.model import (
    Entry,
    EntryOrder,
    EntryStatus,
    Queue,
    QueueFront,
    Repository,
    UnmetRequirement,
)
from queue_engine.domain.run import NOT_BEGUN, NOTHING_ASKED, OF_ENTRY
from queue_engine.store.consents import Consents
from queue_engine.store.order import HELD, IN_ORDER, NOT_READY, WITH_ROOM, Order, delayed, milliseconds, ranked
from queue_engine.store.queues import DUE, Queues
from queue_engine.store.repositories import REPOSITORY_FIELDS, repository_of
from queue_engine.store.runs import OF_OWN_HEAD, RUN_FIELDS, Runs, run_of
from queue_engine.store.tables import PAUSED, departures, entries, queues, repositories, runs

STORED = frozenset(Entry.__dataclass_fields__) & frozenset(entries.c.keys())
"""The fields of an entry that its own row has."""

_NAMES = tuple(name for name in entries.c.keys() if name in STORED)  # noqa: SIM118 - a collection, no mapping
_VALUES = itemgetter(*(index for index, name in enumerate(entries.c.keys()) if name in STORED))
"""Reads the values of `_NAMES` from a row of `in_order`, which begins with all columns of `entries`."""
_ASKED = itemgetter(*(entries.c.keys().index(name) for name in OF_ENTRY))
"""Reads the values of `OF_ENTRY` from such a row."""
_NOTHING = tuple(NOTHING_ASKED.values())

_POSITION = (func.row_number().over(partition_by=entries.c.queue_id, order_by=IN_ORDER) - 1).label("position")
_WAITS_BEHIND = and_(
    entries.c.run_id.is_(None),
    entries.c.github_failures == 0,
    entries.c.merge_requested_at.is_(None),
    ~entries.c.hotfix,
    entries.c.blocked_until.is_(None),
    ~HELD,
)
"""Whether an entry behind the front changes nothing while the front waits."""


def placed(scope: ColumnElement[bool]) -> Any:
    """Select entries with their positions. `scope` covers whole queues, so that row numbers are positions."""
    return select(entries, _POSITION).where(scope).subquery("placed")


def fronts(scope: ColumnElement[bool]) -> Select[Any]:
    """Select the first entry of each queue, with the columns that `front_of` reads. `scope` covers whole queues."""
    waits = cast(_WAITS_BEHIND, Integer)
    total, waiting = (each.over(partition_by=entries.c.queue_id) for each in (func.count(), func.sum(waits)))
    columns = (total.label("total"), waiting.label("waiting"), waits.label("waits"))
    rows = select(entries, _POSITION, *columns).where(scope).subquery("fronts")
    return in_order(rows, rows.c.position == 0)


def in_order(rows: Any, *chosen: ColumnElement[bool]) -> Select[Any]:
    """Select the `chosen` of these entries, with the columns that `entry_of` reads."""
    return (
        select(rows, queues.c.base_branch, *REPOSITORY_FIELDS[1:], *RUN_FIELDS)
        .join(queues, queues.c.id == rows.c.queue_id)
        .join(repositories, repositories.c.id == rows.c.repository_id)
        .outerjoin(runs, runs.c.id == rows.c.run_id)
        .where(*chosen)
        .order_by(rows.c.queue_id, rows.c.position)
    )


def entry_of(row: Row[Any]) -> Entry:
    """Read the entry from a row of `in_order`."""
    # By index: a wake-up of all queues reads tens of thousands of entries, and by name each takes ten times as long.
    values: dict[str, Any] = dict(zip(_NAMES, _VALUES(row), strict=True))
    values["trusted_labels"] = tuple(row.trusted_labels)
    values["depends_on"] = tuple(row.depends_on or ())
    values["unmet"] = UnmetRequirement.all_of(row.unmet)
    surroundings = {"repository": repository_of(row), "base_branch": row.base_branch, "position": row.position}
    run, asked = run_of(row), _ASKED(row)
    if run.has_branch:
        run = run.of_member(row.id, row.head_sha)
    if asked != _NOTHING:
        run = replace(run, **dict(zip(OF_ENTRY, asked, strict=True)))
    return Entry(**values, **surroundings, run=run)


def front_of(row: Row[Any]) -> QueueFront:
    """Read the front from a row of `fronts`."""
    others_wait = row.waiting - row.waits == row.total - 1
    return QueueFront(entry_of(row), row.total, others_wait)


class NewEntry(TypedDict, total=False):
    """The values of a new entry, for `Entries.add`. By default it has no precedence over others."""

    queue_id: Required[int]
    number: Required[int]
    title: Required[str]
    author: Required[str]
    queued_by: Required[str]
    queued_by_id: int | None
    source: ConsentKind
    """By what the person consented; a label, if it is not given."""
    queued_head: Required[str]
    enqueued_at: Required[datetime]
    priority: int
    hotfix: bool
    preempts: bool
    fixes_base: bool
    freeze_exempt: bool
    trusted_labels: list[str]
    newer_tip: str | None
    trace: str | None
    delivery: str | None
    shared_head: str | None
    head_branch: str | None
    own_check_required: bool
    unmet: list[list[Any]] | None
    """What an entry lacks that is not ready, as `UnmetRequirement.as_data`."""
    read_at: datetime | None
    depends_on: list[str] | None


_FIXED = frozenset({"id", "seq", "queue_id", "number", "enqueued_at", "arrived", "version", "trace", "delivery"})
_FIXED |= {"shared_head", "share_delay", "head_branch"}
"""Columns that never change while an entry is queued; `version` changes only through `save`."""

_AT_FIRST: Mapping[str, Any] = {
    "head_proved": True,
    "needs_refetch": False,
    "trusted_labels": [],
    "version": 1,
    **vars(EntryOrder()),
}
"""The initial values of every entry, unless `NewEntry` has others."""


_HOUR, _MEASURED = timedelta(hours=1), timedelta(minutes=10)
_AT_LEAST = 30
"""How many landings within an hour a queue is believed to be able to make before any was measured."""
_TESTS_AN_HOUR = 6
"""How often an hour each place in a test is believed to land something."""

_ID: BindParameter[str] = bindparam("its_id")
_QUEUE: BindParameter[int] = bindparam("its_queue")
_REPOSITORY: BindParameter[int] = bindparam("its_repository")
_NUMBER: BindParameter[int] = bindparam("its_number")
_AWAITING: Select[Any] = (
    select(*REPOSITORY_FIELDS, entries.c.number, entries.c.unmet)
    .join(repositories, repositories.c.id == entries.c.repository_id)
    .where(NOT_READY, func.lower(cast(entries.c.unmet, Text)).contains(bindparam("its_name", type_=Text)))
    .order_by(entries.c.seq)
)
_AWAITING_WITHIN = _AWAITING.where(entries.c.repository_id == bindparam("its_repository", type_=Integer))
_ITS_OWN = and_(entries.c.repository_id == _REPOSITORY, entries.c.number == _NUMBER)
_SAME = and_(entries.c.id == _ID, entries.c.version == bindparam("its_version"))

_IN_ITS_QUEUE = placed(entries.c.queue_id == select(entries.c.queue_id).where(entries.c.id == _ID).scalar_subquery())
_IN_QUEUE = placed(and_(entries.c.queue_id == _QUEUE, ~NOT_READY))
_IN_QUEUES = placed(and_(entries.c.queue_id.in_(bindparam("its_queues", expanding=True)), ~NOT_READY))
_OUTSIDE_QUEUE = placed(and_(entries.c.queue_id == _QUEUE, NOT_READY))
_IN_REPOSITORY = placed(entries.c.repository_id == _REPOSITORY)

_GET = in_order(_IN_ITS_QUEUE, _IN_ITS_QUEUE.c.id == _ID)
_FIND = in_order(_IN_REPOSITORY, _IN_REPOSITORY.c.number == _NUMBER)
_OF_QUEUE = in_order(_IN_QUEUE)
_OF_QUEUES = in_order(_IN_QUEUES)
_NOT_READY_OF_QUEUE = in_order(_OUTSIDE_QUEUE)
_FIRST_OF_QUEUE = in_order(_IN_QUEUE, _IN_QUEUE.c.position < bindparam("most", type_=Integer))
_OF_REPOSITORY = in_order(_IN_REPOSITORY)
_BRANCH: BindParameter[str] = bindparam("its_branch")
_SHARING = in_order(_IN_REPOSITORY, _IN_REPOSITORY.c.head_branch == _BRANCH, _IN_REPOSITORY.c.number != _NUMBER)
_WAITING_OUTSIDE = in_order(_IN_REPOSITORY, _IN_REPOSITORY.c.unmet.is_not(None))
_ORDERED = in_order(_IN_QUEUE, _IN_QUEUE.c.depends_on.is_not(None))
_UPDATED_OR_CHECKED = in_order(_IN_REPOSITORY, OF_OWN_HEAD)
_IN_RUNS = in_order(_IN_QUEUES, _IN_QUEUES.c.run_id.is_not(None))
_IS_QUEUED = select(entries.c.seq).where(_ITS_OWN)
_ARRIVALS = select(entries.c.author, entries.c.arrived, entries.c.share_delay).where(
    entries.c.queue_id == _QUEUE, ~NOT_READY, entries.c.priority <= 0, ~entries.c.hotfix
)
_COUNT = select(func.count()).select_from(entries).where(entries.c.queue_id == _QUEUE, ~NOT_READY)
_SINCE: BindParameter[datetime] = bindparam("since", type_=DatabaseInstant)
_LANDED = (
    select(func.count())
    .select_from(departures)
    .where(
        departures.c.repository_id == queues.c.repository_id,
        departures.c.base_branch == queues.c.base_branch,
        departures.c.left_at > _SINCE,
        departures.c.outcome == EntryStatus.LANDED,
    )
)
_LANDABLE = (
    select(
        func.count().label("waiting"),
        func.count(entries.c.run_id).label("begun"),
        _LANDED.correlate(queues).scalar_subquery().label("landed"),
    )
    .select_from(entries)
    .join(queues, queues.c.id == entries.c.queue_id)
    .join(repositories, repositories.c.id == entries.c.repository_id)
    .where(repositories.c.installation_id == bindparam("its_installation"), ~PAUSED, WITH_ROOM)
    .group_by(queues.c.id, queues.c.repository_id, queues.c.base_branch)
)
_LOCK = select(entries.c.seq).where(_SAME).with_for_update()
_SAVE = update(entries).where(_SAME)
_REMOVE = delete(entries).where(_SAME)

_ITS_REPOSITORY = select(queues.c.repository_id).where(queues.c.id == _QUEUE).scalar_subquery()
_ADD = Upsert(
    entries,
    lambda insert: (
        insert.values(repository_id=_ITS_REPOSITORY)
        .on_conflict_do_nothing(index_elements=["repository_id", "number"])
        .returning(entries.c.seq)
    ),
)


class Entries:
    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._order = Order(connection)
        self._runs = Runs(connection)

    async def add(
        self,
        *,
        ageing: timedelta = timedelta(hours=1),
        arrived_at: datetime | None = None,
        stored_at: datetime | None = None,
        earliest: Callable[[int], int] = lambda arrived: arrived,
        **arrival: Unpack[NewEntry],
    ) -> Entry:
        """Add a pull request at the end of its priority, pending, bound to `queued_head`.

        With `arrived_at` the entry gets the position that it would have if it had joined then, behind entries being
        processed. Without it the entry arrives at `stored_at`, or else at `enqueued_at`, but never before earlier
        ones. `ageing` is the head start of one point of priority. `earliest` returns the least key of an entry without
        priority that arrived then. On PostgreSQL the caller takes `Queues.lock_order`
        before, so that arrivals have an order.

        Raises EntryConflict when the pull request is queued already; the transaction remains usable.
        """
        source = arrival.pop("source", ConsentKind.LABEL)
        entry_id, queue_id = uuid4().hex, arrival["queue_id"]
        priority = arrival.get("priority", 0)
        if arrived_at is None:
            arrived = await self._order.arrival(queue_id, stored_at or arrival["enqueued_at"])
            rank = await self._order.last(queue_id, arrived, priority, ageing)
        else:
            arrived = milliseconds(arrived_at)
            rank = ranked(arrived, priority, ageing)
        share_delay = 0 if priority > 0 or arrival.get("hotfix") else max(0, earliest(arrived) - arrived)
        values = {
            **_AT_FIRST,
            **arrival,
            "id": entry_id,
            "arrived": arrived,
            "rank": delayed(rank, priority, share_delay),
            "share_delay": share_delay,
            "head_sha": arrival["queued_head"],
            "status_since": arrival["enqueued_at"],
            "its_queue": queue_id,
        }
        if (await self._connection.execute(_ADD.on(self._connection), values)).scalar_one_or_none() is None:
            raise EntryConflict(f"pull request {arrival['number']} is already queued")
        entry = await self.get(entry_id)
        assert entry is not None
        await Consents(self._connection).add(entry, source, entry.queued_by, entry.enqueued_at)
        return entry

    async def get(self, entry_id: str) -> Entry | None:
        """Return the entry with this id, if it is still queued."""
        return _only(await self._read(_GET, its_id=entry_id))

    async def find(self, repository_id: int, number: int) -> Entry | None:
        """Return the entry of this pull request, if it is queued, or waits until it is ready."""
        return _only(await self._read(_FIND, its_repository=repository_id, its_number=number))

    async def is_queued(self, repository_id: int, number: int) -> bool:
        """Return whether this pull request is queued: cheaper than `find`."""
        its_own = {"its_repository": repository_id, "its_number": number}
        return (await self._connection.execute(_IS_QUEUED, its_own)).first() is not None

    async def of_queue(self, queue_id: int, *, most: int | None = None) -> tuple[Entry, ...]:
        """Return the entries in a queue in order, front first; with `most` only the first ones."""
        if most is None:
            return await self._read(_OF_QUEUE, its_queue=queue_id)
        return await self._read(_FIRST_OF_QUEUE, its_queue=queue_id, most=most)

    async def not_ready(self, queue_id: int) -> tuple[Entry, ...]:
        """Return the entries that wait outside this queue until they are ready, in the order in which people asked."""
        return await self._read(_NOT_READY_OF_QUEUE, its_queue=queue_id)

    async def of_queues(self, queue_ids: Sequence[int]) -> Mapping[int, tuple[Entry, ...]]:
        """Return the entries of each of these queues in order, by the queue's id; an empty queue is left out."""
        found = await self._read(_OF_QUEUES, its_queues=queue_ids)
        return {queue_id: tuple(its_own) for queue_id, its_own in groupby(found, key=attrgetter("queue_id"))}

    async def in_runs(self, queue_ids: Sequence[int]) -> tuple[Entry, ...]:
        """Return the members of runs in these queues, queue by queue, in order."""
        return await self._read(_IN_RUNS, its_queues=queue_ids)

    async def of_repository(self, repository_id: int) -> tuple[Entry, ...]:
        """Return every entry of a repository, queue by queue, in order; entries that are not ready come last."""
        return await self._read(_OF_REPOSITORY, its_repository=repository_id)

    async def sharing(self, repository_id: int, number: int, head_branch: str) -> tuple[Entry, ...]:
        """Return the entries of other pull requests with this head branch, each for another base branch."""
        its_own = {"its_repository": repository_id, "its_number": number, "its_branch": head_branch}
        return await self._read(_SHARING, **its_own)

    async def waiting_outside(self, repository_id: int) -> tuple[Entry, ...]:
        """Return the entries of a repository that wait outside their queues."""
        return await self._read(_WAITING_OUTSIDE, its_repository=repository_id)

    async def ordered(self, queue_id: int) -> tuple[Entry, ...]:
        """Return the entries in a queue whose pull requests name others that land before them."""
        return await self._read(_ORDERED, its_queue=queue_id)

    async def awaiting(self, name: str, within: int | None = None) -> tuple[tuple[Repository, int], ...]:
        """Return the pull requests that wait outside their queues, and lack something whose detail has this name.

        The name is in lower case. They are in any repository, or in the one with the id `within`.
        """
        its_own: dict[str, Any] = {"its_name": name, "its_repository": within}
        found = await self._connection.execute(_AWAITING if within is None else _AWAITING_WITHIN, its_own)
        # The name of one may begin or end with that of another, such as a/b#1 and a/b#12.
        whole = re.compile(rf"(?<![\w./-]){re.escape(name)}(?!\d)")
        return tuple((repository_of(row), row.number) for row in found if whole.search(json.dumps(row.unmet).lower()))

    async def updated_or_checked(self, repository_id: int) -> tuple[Entry, ...]:
        """Return the entries that are being updated or checked, each by itself, at one instant.

        One statement reads both states, so that it misses no entry that changes from one to the other meanwhile.
        """
        return await self._read(_UPDATED_OR_CHECKED, its_repository=repository_id)

    async def arrivals(self, queue_id: int) -> tuple[tuple[str, int, int], ...]:
        """Return author, arrival and delay (in milliseconds) of each entry of a queue without a priority above 0."""
        return tuple(map(tuple, await self._connection.execute(_ARRIVALS, {"its_queue": queue_id})))

    async def count(self, queue_id: int) -> int:
        return (await self._connection.execute(_COUNT, {"its_queue": queue_id})).scalar_one()

    async def landable(self, installation_id: int, now: datetime) -> WaitCount:
        """Return how many entries of an installation may land at any moment, and how many within this hour.

        Soon lands what is being tested, or the front. Within the hour lands twice what the last minutes landed, and
        never fewer than `_AT_LEAST`, so that a queue which just began finds room. Paused queues land nothing.
        """
        its_own = {"its_installation": installation_id, "since": now - _MEASURED}
        soon = this_hour = 0
        for waiting, begun, landed in await self._connection.execute(_LANDABLE, its_own):
            soon += max(1, begun)
            this_hour += min(waiting, max(_AT_LEAST, begun * _TESTS_AN_HOUR, 2 * landed * (_HOUR // _MEASURED)))
        return WaitCount(soon, this_hour)

    async def save(self, entry: Entry) -> Entry:
        """Store the changed entry, and its run unless that has a branch; return the entry with the new versions.

        A run without a branch begins with its first save, and ends when it is saved empty. The returned position is the
        former one: after a change of priority, read the queue again.
        Raises StaleRecord when another transaction changed or removed the entry or its run since it was read.
        """
        run, is_member = entry.run, entry.run.has_begun
        own = replace(run, **NOTHING_ASKED)
        if is_member and run.id is None:
            own = await self._runs.add(own)
        values = _values(entry) | {"run_id": own.id if is_member else None, "version": entry.version + 1}
        # Lock the entry before a run that it alone has, as every transaction does.
        if (await self._connection.execute(_SAVE, {**values, **_same(entry)})).rowcount != 1:
            raise _stale(entry)
        if not is_member:
            await self._runs.end(own)
            own = NOT_BEGUN
        elif run.id is not None and not run.has_branch:
            own = await self._runs.save(own)
        return replace(entry, version=entry.version + 1, run=replace(run, id=own.id, version=own.version))

    async def reprioritise(self, entry: Entry, order: EntryOrder, ageing: timedelta) -> Entry:
        """Give a queued entry another priority and other exemptions; returns the entry with its new position.

        The arrival remains: the entry gets the position that it would have if it had joined with this priority. The
        entry being processed remains the front. Raises StaleRecord as `save` does.
        """
        rank = await self.rank_with(entry, order.priority, ageing)
        await self.save(replace(entry, rank=rank, **vars(order)))
        changed = await self.get(entry.id)
        assert changed is not None
        return changed

    async def rank_with(self, entry: Entry, priority: int, ageing: timedelta) -> int:
        """Return the rank that this entry would get with another priority."""
        rank = await self._order.between(entry.queue_id, entry.arrived, entry.seq, priority, ageing)
        return delayed(rank, priority, entry.share_delay)

    async def lock(self, entry: Entry) -> bool:
        """Lock the entry until this transaction ends. False if it changed or left since it was read."""
        return (await self._connection.execute(_LOCK, _same(entry))).first() is not None

    async def remove(self, entry: Entry) -> None:
        """Delete the entry. Raises StaleRecord as `save` does."""
        if (await self._connection.execute(_REMOVE, _same(entry))).rowcount != 1:
            raise _stale(entry)
        await self._runs.end(entry.run)

    async def _read(self, statement: Select[Any], **its_own: object) -> tuple[Entry, ...]:
        return tuple(map(entry_of, await self._connection.execute(statement, its_own)))


def _same(entry: Entry) -> dict[str, Any]:
    return {"its_id": entry.id, "its_version": entry.version}


def _stale(entry: Entry) -> StaleRecord:
    return StaleRecord(f"the entry of pull request {entry.number} is no longer at version {entry.version}")


def _only(found: tuple[Entry, ...]) -> Entry | None:
    return found[0] if found else None


def _values(entry: Entry) -> dict[str, object]:
    values = {name: getattr(entry, name) for name in STORED - _FIXED}
    values |= {name: getattr(entry.run, name) for name in OF_ENTRY}
    values["unmet"] = [each.as_data() for each in entry.unmet] or None
    values["depends_on"] = entry.depends_on or None
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


_WITHOUT: BindParameter[int] = bindparam("without", expanding=True)
_DUE_IDS = (
    select(queues.c.id)
    .where(DUE, queues.c.id.not_in(_WITHOUT))
    .order_by(queues.c.due_at, queues.c.id)
    .limit(bindparam("at_most", type_=Integer))
)
_LOCK_DUE = _DUE_IDS.with_for_update(skip_locked=True)
_SHARED_GENERATIONS = (
    select(func.lower(repositories.c.owner).label("owner"), repositories.c.generation)
    .where(
        func.lower(repositories.c.name) == SHARED_RULES,
        func.lower(repositories.c.owner).in_(bindparam("owners", type_=String, expanding=True)),
    )
    .order_by(repositories.c.id)
)
_FRONTS = fronts(and_(entries.c.queue_id.in_(bindparam("its_queues", expanding=True)), ~NOT_READY))
_RELEASE = (
    update(queues)
    .where(queues.c.id == bindparam("its_id"))
    .values(due_at=bindparam("at", type_=DatabaseInstant), lease_owner=None, leased_until=None)
)


class QueueBatch:
    """The due queues, on one connection.

    Their rows stay locked until the transaction ends. So a wake-up either comes before, and is seen here, or after, and
    then makes the queue due again.
    """

    def __init__(self, connection: AsyncConnection, all_queues: Queues) -> None:
        self._connection = connection
        self._queues = all_queues

    async def lock_due(self, *, now: datetime, without: Collection[int], at_most: int) -> tuple[Queue, ...]:
        """Lock up to `at_most` queues that are due and not leased, `without` these, until the transaction ends."""
        due = {"now": now, "without": list(without), "at_most": at_most}
        ids = list(await self._connection.scalars(_LOCK_DUE, due))
        # Read after the locks: whatever was stored with an earlier wake-up is seen.
        return await self._queues.some(ids) if ids else ()

    async def due(self, *, now: datetime, without: Collection[int], at_most: int) -> tuple[Queue, ...]:
        """Return the same queues without a lock."""
        due = {"now": now, "without": list(without), "at_most": at_most}
        ids = list(await self._connection.scalars(_DUE_IDS, due))
        return await self._queues.some(ids) if ids else ()

    async def shared_generations(self, some: Sequence[Queue]) -> Mapping[str, int]:
        """Count the known changes of the shared configuration of each owner of these queues, by lower-case name."""
        owners = sorted({queue.repository.owner.lower() for queue in some})
        found = await self._connection.execute(_SHARED_GENERATIONS, {"owners": owners})
        return {row.owner: row.generation for row in found}

    async def fronts(self, queue_ids: Sequence[int]) -> Mapping[int, QueueFront]:
        """Return the front of each of these queues by order, by the queue's id; an empty queue is left out."""
        found = map(front_of, await self._connection.execute(_FRONTS, {"its_queues": queue_ids}))
        return {front.entry.queue_id: front for front in found}

    async def release(self, dues: Mapping[int, datetime | None]) -> None:
        """End the leases of locked queues, by id, with their next due times; None: until an event wakes the queue."""
        if dues:
            values = [{"its_id": queue_id, "at": due} for queue_id, due in sorted(dues.items())]
            await self._connection.execute(_RELEASE, values)
