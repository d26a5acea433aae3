"""The departures: one row for each entry that left its queue. The event in the timeline is of the same transaction.

With each departure its day's sums change, so that statistics need not read all departures.
"""

from dataclasses import asdict
from datetime import UTC, datetime, time
from typing import Any

from sqlalchemy import Integer, Row, bindparam, delete, exists, func, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert
from queue_engine.core.read_model import adapter
from queue_engine.domain.departure import Departure, RerunCheck
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.store.departure_tables import departure_days, departures, flaky_days, request_days
from queue_engine.store.rerun_checks import ADD_FLAKY, flaky_sums

_REPOSITORY = departures.c.repository_id == bindparam("its_repository")
_BRANCH = departures.c.base_branch == bindparam("its_branch")
_SAME = (_REPOSITORY, departures.c.number == bindparam("its_number"), _BRANCH)
_PUT = Upsert(
    departures, lambda insert: insert.on_conflict_do_nothing(index_elements=["id"]).returning(departures.c.id)
)
_HAS_LATER = select(exists().where(*_SAME, departures.c.id > bindparam("its_id")))
_SUPERSEDE = (
    update(departures)
    .where(*_SAME, departures.c.id < bindparam("its_id"), departures.c.is_last)
    .values(is_last=False)
    .returning(departures.c.day, departures.c.outcome, departures.c.reason)
)
_KEY = tuple(each.name for each in departure_days.primary_key)
_SUMS = tuple(each.name for each in departure_days.c if each.name not in _KEY)
ADD_DAYS = Upsert(
    departure_days,
    lambda insert: insert.on_conflict_do_update(
        index_elements=_KEY, set_={name: departure_days.c[name] + insert.excluded[name] for name in _SUMS}
    ),
)
_LEFT = (
    select(departures.c.left_at)
    .where(
        *(_REPOSITORY, _BRANCH, departures.c.day >= bindparam("since_day"), departures.c.day <= bindparam("until_day")),
        departures.c.left_at >= bindparam("since"),
        departures.c.left_at <= bindparam("until"),
    )
    .order_by(departures.c.left_at.desc())
    .limit(bindparam("at_most", type_=Integer))
)
_MOST_OTHERS = 1000
_OLDEST = (
    select(departures.c.id)
    .where(departures.c.left_at < bindparam("before"))
    .order_by(departures.c.left_at)
    .limit(bindparam("at_most", type_=Integer))
)
_PURGE = delete(departures).where(departures.c.id.in_(_OLDEST))
_FIRST_LEFT = select(func.min(departures.c.left_at))
_PURGE_DAYS = [
    delete(each).where(each.c.day < bindparam("its_day")) for each in (departure_days, flaky_days, request_days)
]


class Departures:
    """The departures, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def put(self, departure: Departure) -> None:
        """Store a departure; nothing changes if it is stored already."""
        key = {
            "its_repository": departure.repository_id,
            "its_branch": departure.base_branch,
            "its_number": departure.number,
            "its_id": departure.id,
        }
        has_later = (await self._connection.execute(_HAS_LATER, key)).scalar_one()
        row = departure_row(departure, is_last=not has_later)
        if (await self._connection.execute(_PUT.on(self._connection), row)).first() is None:
            return
        superseded = (await self._connection.execute(_SUPERSEDE, key)).all()
        added = [day_sums(departure, pulls=int(not has_later)), *(_superseded(departure, each) for each in superseded)]
        await self._connection.execute(ADD_DAYS.on(self._connection), added)
        if departure.flaky:
            await self._connection.execute(ADD_FLAKY.on(self._connection), flaky_sums(departure, row["day"]))

    async def left(
        self, repository_id: int, base_branch: str, since: datetime, until: datetime
    ) -> tuple[datetime, ...]:
        """Return when entries left this queue within these instants, the last thousand of them, newest first."""
        these = {"its_repository": repository_id, "its_branch": base_branch, "since": since, "until": until}
        days = {"since_day": day_of(since), "until_day": day_of(until)}
        found = await self._connection.execute(_LEFT, {**these, **days, "at_most": _MOST_OTHERS})
        return tuple(found.scalars())

    async def of_pull_request(self, repository_id: int, number: int) -> tuple[Departure, ...]:
        """Return all departures of a pull request, oldest first."""
        ours = select(departures).where(departures.c.repository_id == repository_id, departures.c.number == number)
        return tuple(map(departure_in, await self._connection.execute(ours.order_by(departures.c.id))))

    async def purge(self, before: datetime, *, at_most: int) -> int:
        """Delete the oldest departures before the day of this instant, at most so many; returns how many were deleted.

        Departures and sums are deleted by whole days, so that the sums are always those of the departures.
        """
        day = datetime.combine(before.astimezone(UTC).date(), time(), UTC)
        deleted = (await self._connection.execute(_PURGE, {"before": day, "at_most": at_most})).rowcount
        first = (await self._connection.execute(_FIRST_LEFT)).scalar_one()
        for statement in _PURGE_DAYS:
            await self._connection.execute(statement, {"its_day": day_of(day if first is None else min(first, day))})
        return deleted


def day_of(at: datetime) -> int:
    """Return the day of an instant, as the number of days since 1970 in UTC."""
    return int(at.timestamp() // 86400)


def day_sums(departure: Departure, *, pulls: int) -> dict[str, Any]:
    """Return the sums that a departure adds to those of its day; `pulls` is 1 for the last one of its pull request."""
    row = {name: getattr(departure, name) for name in (*_KEY, *_SUMS) if name in Departure.__dataclass_fields__}
    known = departure.ci_seconds is not None
    counts = {"departures": 1, "pulls": pulls, "ci_known": int(known), "ci_seconds": departure.ci_seconds or 0.0}
    return row | counts | {"day": day_of(departure.left_at), "reason": departure.reason or ""}


def _superseded(departure: Departure, earlier: Row[Any]) -> dict[str, Any]:
    """Return the sums that change because an earlier departure is no longer the last one of its pull request."""
    of_queue = {"repository_id": departure.repository_id, "base_branch": departure.base_branch}
    key = {"day": earlier.day, "outcome": earlier.outcome, "reason": earlier.reason or ""}
    return {**dict.fromkeys(_SUMS, 0), **of_queue, **key, "pulls": -1}


def departure_row(departure: Departure, *, is_last: bool) -> dict[str, Any]:
    """Return the row of a departure; `is_last` for the last one of its pull request from its queue."""
    row = {name: getattr(departure, name) for name in Departure.__dataclass_fields__}
    flaky = [asdict(each) for each in departure.flaky] or None
    return row | {"flaky": flaky, "is_last": is_last, "day": day_of(departure.left_at)}


def departure_in(row: Row[Any]) -> Departure:
    """Read a departure from its row."""
    values = {name: row._mapping[name] for name in Departure.__dataclass_fields__}
    reason = None if row.reason is None else Reason(row.reason)
    flaky = adapter(tuple[RerunCheck, ...]).validate_python(row.flaky or ())
    return Departure(**values | {"outcome": EntryStatus(row.outcome), "reason": reason, "flaky": flaky})
