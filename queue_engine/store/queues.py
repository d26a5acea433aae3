"""Queues: one for each served base branch, with its due time, lease, pauses, red base, depths and stall.

Nothing runs while a queue waits for its `due_at`. A claim does not change `due_at`, so that the queue of a killed
worker is due as soon as its lease ends. A worker that releases a queue sets the next `due_at`. Without one, only `wake`
makes the queue due: a webhook, a command, or the reconciler, which wakes every queue with entries. A blocked queue is
claimed like any other: its pass informs new entries, and notices that the blocker has ended.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from json import dumps, loads
from typing import Any

from sqlalchemy import (
    BindParameter,
    ColumnElement,
    Integer,
    Row,
    Select,
    and_,
    bindparam,
    case,
    func,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import DatabaseInstant, TableStore, Upsert, record_in
from queue_engine.core.read_model import adapter
from queue_engine.domain.facts import FailingCheck, as_data
from queue_engine.domain.model import NOWHERE, PASSING_PAUSES, PAUSES, Pause, Queue, RedBase, Repository, Stall
from queue_engine.domain.reasons import Reason
from queue_engine.store.order import HELD, IN_ORDER, NOT_READY, WITH_ROOM
from queue_engine.store.repositories import REPOSITORY_FIELDS, remember, repository_of
from queue_engine.store.tables import entries, queues, repositories

_NOW = bindparam("now", type_=DatabaseInstant)

OWN: ColumnElement[bool] = and_(queues.c.lease_owner == bindparam("owner"), queues.c.leased_until > _NOW)
"""Leased by `owner`."""

DUE: ColumnElement[bool] = and_(
    queues.c.due_at <= _NOW, or_(queues.c.leased_until.is_(None), queues.c.leased_until <= _NOW)
)
"""Due, and not leased."""


def _fair_order() -> Select[int]:
    without: BindParameter[int] = bindparam("without", expanding=True)
    # Queues under way come first in every count, so that the round continues from them.
    waits = case((OWN, 0), else_=1)
    row = func.row_number()
    of_repository = row.over(partition_by=queues.c.repository_id, order_by=(waits, queues.c.due_at, queues.c.id))
    one = (
        select(
            queues.c.id,
            queues.c.due_at,
            repositories.c.installation_id,
            waits.label("waits"),
            of_repository.label("place"),
        )
        .join(repositories)
        .where(or_(OWN, and_(DUE, queues.c.id.not_in(without))))
        .subquery()
        .c
    )
    of_installation = row.over(partition_by=one.installation_id, order_by=(one.waits, one.place, one.due_at, one.id))
    each = (
        select(one.id, one.due_at, one.waits, one.place, of_installation.label("round"))
        .where(or_(one.waits == 0, one.place <= bindparam("of_repository", type_=Integer)))
        .subquery()
        .c
    )
    return (
        select(each.id)
        .where(each.waits == 1, each.round <= bindparam("of_installation", type_=Integer))
        .order_by(each.round, each.place, each.due_at, each.id)
        .limit(bindparam("at_most", type_=Integer))
    )


FAIR_ORDER = _fair_order()
"""Ids of the next `at_most` queues to claim, in order, `without` those that were tried.

Round robin over installations, within them over repositories, and within these the longest due queue first. The queues
that `owner` has under way count. `of_repository` and `of_installation` bound how many of one it has at once.
"""


_CHANGE = update(queues).where(queues.c.id == bindparam("its_id"))

PAUSED_UNTIL_RESUMED: ColumnElement[bool] = or_(
    *(queues.c[reason].is_not(None) for reason in PAUSES if reason not in PASSING_PAUSES)
)
"""Whether a queue has a pause that does not end by itself."""


class _InQueue(TableStore):
    """A noun whose state is stored in the row of its queue."""

    def __init__(self, connection: AsyncConnection, wake: Callable[[int, datetime], Awaitable[None]]) -> None:
        """`wake` makes a queue due."""
        super().__init__(connection)
        self._wake = wake


class Pauses(_InQueue):
    """The pauses, on one connection. Each has a column of its own, so that changes of two at once undo nothing."""

    async def put(self, queue_id: int, pause: Pause) -> None:
        """Pause the queue for this reason, in place of an earlier pause for the same reason.

        The queue is due at once, also during a backoff: its pass announces the pause, and sets the next due time.
        """
        values = {pause.reason.value: adapter(Pause).dump_python(pause, mode="json"), "due_at": pause.since}
        await self._connection.execute(_CHANGE, {"its_id": queue_id, **values})
        await self._wake(queue_id, pause.since)

    async def note(self, queue_id: int, pause: Pause) -> None:
        """Pause the queue for this reason without making it due: its next pass comes by itself, and announces it."""
        await self._connection.execute(
            _CHANGE, {"its_id": queue_id, pause.reason.value: adapter(Pause).dump_python(pause, mode="json")}
        )

    async def lift(self, queue_id: int, *reasons: Reason, now: datetime) -> None:
        """Lift the pauses for these reasons and no other, and make the queue due now.

        After the end of a refusal it is due even during a backoff, which waited for that end.
        """
        if reasons:
            values: dict[str, Any] = {reason.value: None for reason in reasons}
            due = {"due_at": now} if Reason.GITHUB_REFUSES in reasons else {}
            await self._connection.execute(_CHANGE, {"its_id": queue_id, **values, **due})
        await self._wake(queue_id, now)


def pauses_of(row: Row[Any]) -> tuple[Pause, ...]:
    """Read the pauses from a row of `queues`, the most important first."""
    stored = row._mapping
    pauses = (stored[reason.value] for reason in PAUSES)
    return tuple(adapter(Pause).validate_python(pause) for pause in pauses if pause is not None)


_TIPS = select(queues.c.repository_id, queues.c.red_tip).where(
    queues.c.repository_id.in_(bindparam("repositories", expanding=True)), queues.c.red_check.is_not(None)
)
_WAITING = (
    select(queues.c.id)
    .where(queues.c.repository_id == bindparam("its_repository"), queues.c.red_tip == bindparam("its_tip"))
    .order_by(queues.c.id)
)


class RedBases(_InQueue):
    """The red bases, on one connection; each is stored in the row of its queue."""

    async def note(self, queue_id: int, red: RedBase | None, *, expected: RedBase | None = None) -> bool:
        """Store that the base fails its checks, None: passes, if `expected` is stored still; whether it was."""
        noted = _CHANGE
        if expected is not None:
            noted = noted.where(*[column == value for column, value in _values(expected).items()])
        values = {column.name: value for column, value in _values(red).items()}
        return (await self._connection.execute(noted, {"its_id": queue_id, **values})).rowcount == 1

    async def tips(self, repository_ids: Collection[int]) -> set[tuple[int, str]]:
        """Return the failing tips that queues of these repositories wait for: repository and commit."""
        found = await self._connection.execute(_TIPS, {"repositories": list(repository_ids)})
        return {(row.repository_id, row.red_tip) for row in found}

    async def reported(self, repository_id: int, sha: str, now: datetime) -> None:
        """Wake the queues that wait for this commit to pass: a check reported on it."""
        waiting = await self._connection.execute(_WAITING, {"its_repository": repository_id, "its_tip": sha})
        for queue_id in waiting.scalars().all():
            await self._connection.execute(_CHANGE, {"its_id": queue_id, "red_next_poll_at": now})
            await self._wake(queue_id, now)

    async def moved(self, queue: Queue, tip: str, now: datetime) -> None:
        """Replace a failing tip by the new tip of the base branch, and wake the queue to read its checks."""
        if queue.red is not None and queue.red.tip != tip:
            await self.note(queue.id, replace(queue.red, tip=tip, polls=0, next_poll_at=now))
            await self._wake(queue.id, now)


def _values(red: RedBase | None) -> dict[ColumnElement[Any], Any]:
    return {
        queues.c.red_check: red and red.check,
        queues.c.red_app_id: red and red.app_id,
        queues.c.red_tip: red and red.tip,
        queues.c.red_since: red and red.since,
        queues.c.red_polls: red.polls if red else 0,
        queues.c.red_next_poll_at: red and red.next_poll_at,
        queues.c.red_untested: bool(red and red.untested),
        queues.c.red_rerun: red and red.rerun,
        queues.c.red_failing: dumps(as_data(red.failing)) if red and red.failing else None,
    }


def red_base_of(row: Row[Any]) -> RedBase | None:
    """Convert the columns of a queue's row; None where its base is not known to be red."""
    if row.red_check is None:
        return None
    return RedBase(
        row.red_check,
        row.red_tip,
        row.red_since,
        row.red_polls,
        row.red_next_poll_at,
        row.red_app_id,
        untested=row.red_untested,
        rerun=row.red_rerun,
        failing=tuple(map(FailingCheck.of_data, loads(row.red_failing or "[]"))),
    )


_MANY = 1_000_000
"""In place of no limit."""

_JOINING = 20_261
"""Distinguishes the locks of queues from other advisory locks on the same PostgreSQL."""

_ID: BindParameter[int] = bindparam("its_id")
_IDS: BindParameter[int] = bindparam("its_ids", expanding=True)
_REPOSITORY: BindParameter[int] = bindparam("its_repository")
_AT: BindParameter[datetime] = bindparam("at", type_=DatabaseInstant)

_ALL = select(queues, *REPOSITORY_FIELDS[1:], repositories.c.generation).join(repositories).order_by(queues.c.id)
_GET = _ALL.where(queues.c.id == _ID)
_SOME = _ALL.where(queues.c.id.in_(_IDS))
_FIND = _ALL.where(queues.c.repository_id == _REPOSITORY, queues.c.base_branch == bindparam("its_branch"))
_OF_REPOSITORY = _ALL.where(queues.c.repository_id == _REPOSITORY)
_ITS_QUEUE = select(entries.c.queue_id).where(
    entries.c.repository_id == _REPOSITORY, entries.c.number == bindparam("its_number", type_=Integer)
)
_OF_PULL_REQUEST = _ALL.where(queues.c.id == _ITS_QUEUE.scalar_subquery())
_CREATE = Upsert(queues, lambda insert: insert.on_conflict_do_nothing())

_FRONT_TROUBLE = (
    select(entries.c.github_failures)
    .where(entries.c.queue_id == queues.c.id)
    .order_by(*IN_ORDER)
    .limit(1)
    .correlate(queues)
    .scalar_subquery()
)
_IN_TROUBLE = or_(func.coalesce(_FRONT_TROUBLE, 0) > 0, queues.c.errors > 0)
"""Whether a backoff is under way, which webhooks do not shorten."""

_CHANGE = update(queues).where(queues.c.id == _ID)
_WAKE = _CHANGE.values(
    due_at=case(
        (queues.c.due_at.is_(None), _AT),
        (and_(queues.c.due_at > _AT, ~_IN_TROUBLE), _AT),
        else_=queues.c.due_at,
    ),
    wake_count=queues.c.wake_count + 1,
).returning(queues.c.leased_until)
_COUNT_ERROR = (
    update(queues)
    .where(queues.c.id == _ID)
    .values(errors=queues.c.errors + 1, errors_since=func.coalesce(queues.c.errors_since, _AT))
    .returning(queues.c.errors, queues.c.errors_since)
)
_LOCK = select(queues.c.id).where(queues.c.id.in_(_IDS), DUE).with_for_update(skip_locked=True)
_TAKE = update(queues).where(queues.c.id.in_(_IDS))
_LEASED = and_(queues.c.id == _ID, queues.c.lease_owner == bindparam("its_owner"))
_RENEW = update(queues).where(_LEASED)
_RELEASE = _RENEW.values(
    lease_owner=None,
    leased_until=None,
    due_at=case(
        (
            and_(queues.c.wake_count > bindparam("its_wake_count"), ~_IN_TROUBLE),
            bindparam("now", type_=DatabaseInstant),
        ),
        else_=_AT,
    ),
)
_RELEASE_ALL = update(queues).where(queues.c.lease_owner.is_not(None)).values(lease_owner=None, leased_until=None)
_CLAIMABLE = case((queues.c.leased_until > queues.c.due_at, queues.c.leased_until), else_=queues.c.due_at)
NEXT_DUE = select(type_coerce(func.min(_CLAIMABLE), DatabaseInstant))
"""When the next queue can be claimed."""

_GREEN = select(queues.c.green_tip).where(queues.c.id == bindparam("its_id"))


class Queues:
    def __init__(self, connection: AsyncConnection, due: Callable[[], None] = lambda: None) -> None:
        """`due` is called for every queue that is woken, unless it is leased: its holder looks for more at its end."""
        self._connection = connection
        self._due = due

    async def get(self, queue_id: int) -> Queue | None:
        return await self._one(_GET, its_id=queue_id)

    async def find(self, repository_id: int, base_branch: str) -> Queue | None:
        """Return the queue of this base branch, if there has ever been one."""
        return await self._one(_FIND, its_repository=repository_id, its_branch=base_branch)

    async def of_pull_request(self, repository_id: int, number: int) -> Queue | None:
        return await self._one(_OF_PULL_REQUEST, its_repository=repository_id, its_number=number)

    async def find_or_create(self, repository: Repository, base_branch: str, now: datetime) -> Queue:
        """Return the queue of this base branch, created once even by concurrent calls."""
        await remember(self._connection, repository)
        new = {"repository_id": repository.id, "base_branch": base_branch, "wake_count": 0, "created_at": now}
        await self._connection.execute(_CREATE.on(self._connection), new)
        queue = await self.find(repository.id, base_branch)
        assert queue is not None
        return queue

    async def lock_order(self, queue_id: int) -> None:
        """Keep other transactions from adding entries to this queue until this one ends, so arrivals have an order.

        SQLite has one writer anyway. On PostgreSQL this is a lock of its own, for which no dequeue waits.
        """
        if self._connection.dialect.name == "postgresql":
            await self._connection.execute(select(func.pg_advisory_xact_lock(_JOINING, queue_id)))

    async def of_repository(self, repository_id: int) -> tuple[Queue, ...]:
        """Return every queue of a repository."""
        return await self._many(_OF_REPOSITORY, its_repository=repository_id)

    async def all(self) -> tuple[Queue, ...]:
        """Return every queue."""
        return await self._many(_ALL)

    async def some(self, queue_ids: Sequence[int]) -> tuple[Queue, ...]:
        """Return the queues with these ids, in any order."""
        return await self._many(_SOME, its_ids=queue_ids)

    async def wake(self, queue_id: int, at: datetime, *, anyway: bool = False) -> None:
        """Make the queue due at `at`, or earlier if it is; a leased queue is due again after its release.

        Webhooks shorten no backoff: a queue whose front waits out a failure of GitHub keeps its due time. `anyway`: the
        webhook says that this failure has ended.
        """
        if anyway:
            await self._connection.execute(_CHANGE.values(due_at=_AT), {"its_id": queue_id, "at": at})
        leased_until = (await self._connection.execute(_WAKE, {"its_id": queue_id, "at": at})).scalar_one_or_none()
        if leased_until is None or leased_until <= at:
            self._due()

    async def claim_due(
        self,
        *,
        owner: str,
        now: datetime,
        lease: timedelta,
        limit: int,
        without: Collection[int] = (),
        of_repository: int | None = None,
        of_installation: int | None = None,
    ) -> tuple[Queue, ...]:
        """Claim up to `limit` queues that are due and not leased, `without` these, until `now + lease`.

        `FAIR_ORDER` says in which order, and how `of_repository` and `of_installation` bound the claim. An `owner` is
        one running worker: its name must not outlive its process.
        """
        taken, tried = list[int](), [*without]
        bounds = {
            "owner": owner,
            "now": now,
            "of_repository": of_repository or _MANY,
            "of_installation": of_installation or _MANY,
        }
        while len(taken) < limit:
            # Other workers may lock some of these queues meanwhile: try the next ones in place of them.
            at_most = limit - len(taken)
            ids = list(await self._connection.scalars(FAIR_ORDER, {**bounds, "without": tried, "at_most": at_most}))
            if not ids:
                break
            tried += ids
            locked = list(await self._connection.scalars(_LOCK, {"its_ids": ids, "now": now}))
            if locked:
                lent = {"its_ids": locked, "lease_owner": owner, "leased_until": now + lease}
                await self._connection.execute(_TAKE, lent)
            taken += [queue_id for queue_id in ids if queue_id in locked]
            if len(ids) < at_most and len(locked) == len(ids):
                break
        claimed = {queue.id: queue for queue in await self.some(taken)} if taken else {}
        return tuple(claimed[queue_id] for queue_id in taken)

    async def count_error(self, queue_id: int, at: datetime) -> tuple[int, datetime]:
        """Count a pass that ended with an unexpected error; returns how many there were in a row, and since when."""
        errors, since = (await self._connection.execute(_COUNT_ERROR, {"its_id": queue_id, "at": at})).one()
        return errors, since

    async def clear_errors(self, queue_id: int) -> None:
        """Forget counted errors: a pass succeeded, or the entry on which passes failed has left."""
        await self._connection.execute(_CHANGE, {"its_id": queue_id, "errors": 0, "errors_since": None})

    async def renew(self, queue_id: int, owner: str, until: datetime) -> bool:
        """Prolong a lease. False when this owner has it no longer."""
        return await self._changes(_RENEW, its_id=queue_id, its_owner=owner, leased_until=until)

    async def release(
        self, queue_id: int, owner: str, *, due_at: datetime | None, wake_count: int, now: datetime
    ) -> bool:
        """End a lease. The queue is due at `due_at`, or now if `wake` was called since it had this `wake_count`.

        False, without a change, when this owner has the lease no longer.
        """
        its_own = {"its_id": queue_id, "its_owner": owner, "its_wake_count": wake_count}
        return await self._changes(_RELEASE, **its_own, now=now, at=due_at)

    async def release_all(self) -> None:
        """End every lease: for the start of the only process on this database. Due times do not change."""
        await self._connection.execute(_RELEASE_ALL)

    async def next_due(self) -> datetime | None:
        """Return when the next queue can be claimed: an instant that may be past; None if no queue has a due time."""
        return (await self._connection.execute(NEXT_DUE)).scalar_one()

    async def note_announced(self, queue_id: int, announced: str | None) -> None:
        """Store the announced blockers; None: the queue has none any more."""
        await self._connection.execute(_CHANGE, {"its_id": queue_id, "announced": announced})

    async def green_tip(self, queue_id: int) -> str | None:
        """Return the commit to which IMQ moved the queue's green branch last; None before the first move."""
        return (await self._connection.execute(_GREEN, {"its_id": queue_id})).scalar_one_or_none()

    async def note_green(self, queue_id: int, sha: str) -> None:
        """Store to which commit IMQ moved it."""
        await self._connection.execute(_CHANGE, {"its_id": queue_id, "green_tip": sha})

    async def note_trains(self, queue_id: int, in_trains: bool) -> None:
        """Store whether runs of several members may be stored for this queue."""
        await self._connection.execute(_CHANGE, {"its_id": queue_id, "in_trains": in_trains})

    async def note_label_updates(self, queue_id: int, wanted: bool) -> None:
        """Store whether pushes to the base branch have IMQ update the pull requests with `update_label`."""
        await self._connection.execute(_CHANGE, {"its_id": queue_id, "label_updates": wanted})

    async def _one(self, statement: Select[Any], **its_own: object) -> Queue | None:
        return next(iter(await self._many(statement, **its_own)), None)

    async def _many(self, statement: Select[Any], **their_own: object) -> tuple[Queue, ...]:
        return tuple(map(_queue, await self._connection.execute(statement, their_own)))

    async def _changes(self, statement: Any, **values: object) -> bool:
        return (await self._connection.execute(statement, values)).rowcount == 1


def _queue(row: Row[Any]) -> Queue:
    stall = None
    if row.stalled_since is not None:
        stall = Stall(row.stalled_since, row.stalled_head, row.stalled_checks, row.ci_active_at)
    repository, pauses, red = repository_of(row), pauses_of(row), red_base_of(row)
    return record_in(Queue, row, repository=repository, pauses=pauses, red=red, stall=stall)


class Depths(TableStore):
    """The depths, on one connection. Each call counts for all queues, or for those of one repository, by queue id.

    Counts follow the last announcement: only the configuration of a base branch has its limit, and each pass announces.
    """

    async def entries(self, repository_id: int | None = None) -> Mapping[int, int]:
        """Count the entries with room in each queue; a queue without any is left out."""
        return await self._counted(WITH_ROOM, repository_id)

    async def held(self, repository_id: int | None = None) -> Mapping[int, int]:
        """Count the entries that wait for room in each queue; a queue without any is left out."""
        return await self._counted(HELD, repository_id)

    async def not_ready(self, repository_id: int | None = None) -> Mapping[int, int]:
        """Count the entries that wait outside each queue until they are ready; a queue without any is left out."""
        return await self._counted(NOT_READY, repository_id)

    async def _counted(self, which: ColumnElement[bool], repository_id: int | None) -> Mapping[int, int]:
        counted = select(entries.c.queue_id, func.count()).where(which).group_by(entries.c.queue_id)
        if repository_id is not None:
            its_queues = select(queues.c.id).where(queues.c.repository_id == repository_id)
            counted = counted.where(entries.c.queue_id.in_(its_queues))
        return dict(list(await self._connection.execute(counted)))


_IN_REPOSITORIES = (
    select(queues.c.repository_id)
    .where(queues.c.repository_id.in_(bindparam("repositories", expanding=True)), queues.c.stalled_since.is_not(None))
    .distinct()
)
_STALLED = select(queues.c.id, queues.c.stalled_head, queues.c.stalled_checks, queues.c.ci_active_at).where(
    queues.c.repository_id == bindparam("its_repository"), queues.c.stalled_since.is_not(None)
)
_POLL_SOON = _CHANGE.where(queues.c.stalled_head == NOWHERE)


class Stalls(_InQueue):
    """The stalls, on one connection; each is stored in the row of its queue."""

    async def note(self, queue_id: int, stall: Stall | None, *, expected: Stall | None = None) -> None:
        """Store that no check starts; None: a check started, or the queue has another front.

        With `expected` only if that is still stored: a report or a change of the rules came in between otherwise.
        """
        values = {
            queues.c.stalled_since: stall and stall.since,
            queues.c.stalled_head: stall and stall.head_sha,
            queues.c.stalled_checks: stall and stall.checks,
            queues.c.ci_active_at: stall and stall.ci_active_at,
        }
        changed = _CHANGE.values(values)
        if expected is not None:
            changed = changed.where(
                queues.c.stalled_since == expected.since,
                queues.c.ci_active_at.is_not_distinct_from(expected.ci_active_at),
            )
        await self._connection.execute(changed, {"its_id": queue_id})

    async def poll_soon(self, queue_id: int, now: datetime) -> None:
        """Have a pass look at once for checks that no commit had: the rules or the configuration changed."""
        await self._connection.execute(_POLL_SOON.values(ci_active_at=now - timedelta(hours=1)), {"its_id": queue_id})

    async def repositories(self, repository_ids: Collection[int]) -> set[int]:
        """Return those of these repositories with a queue that waits for a check to start."""
        found = await self._connection.execute(_IN_REPOSITORIES, {"repositories": list(repository_ids)})
        return set(found.scalars())

    async def heads(self, repository_id: int) -> set[str]:
        """Return the heads in this repository for which no check starts."""
        found = await self._connection.execute(_STALLED, {"its_repository": repository_id})
        return {row.stalled_head for row in found}

    async def reported(self, repository_id: int, sha: str, now: datetime, name: str | None = None) -> None:
        """Store that CI runs in this repository, and wake its stalled queues: a check reported on a commit."""
        stalled = await self._connection.execute(_STALLED, {"its_repository": repository_id})
        for row in stalled.all():
            if row.stalled_head == NOWHERE:
                if name is None or name not in row.stalled_checks:
                    continue
                await self.poll_soon(row.id, now)
            elif row.stalled_head != sha and row.ci_active_at is None:
                await self._connection.execute(_CHANGE.values(ci_active_at=now), {"its_id": row.id})
            await self._wake(row.id, now)
