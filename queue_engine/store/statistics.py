"""Sums over departures. They come from the sums of the days, or read an index in its order: no statement reads the rows
of a year of departures.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any

from sqlalchemy import BigInteger, ColumnElement, Row, Select, Table, Text, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncConnection
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from queue_engine.core.database.database import Upsert
from queue_engine.domain.departure import Departure, RerunCheck, WaitKind
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.store.departure_tables import departure_days, departures, flaky_days, request_days
from queue_engine.store.departures import departure_in
from queue_engine.store.rerun_checks import FLAKY_SUMS


class _NotSought(FunctionElement[int]):
    """A column by which SQLite seeks in no index: one of the days, and not of repositories, is in the wanted order.

    PostgreSQL knows how many rows a condition of the column leaves; for an expression it would guess.
    """

    name = "not_sought"
    inherit_cache = True
    type = BigInteger()


@compiles(_NotSought)
def _as_it_is(element: _NotSought, compiler: SQLCompiler, **more: Any) -> str:
    return compiler.process(element.clauses, **more)


@compiles(_NotSought, "sqlite")
def _not_sought(element: _NotSought, compiler: SQLCompiler, **more: Any) -> str:
    # https://www.sqlite.org/optoverview.html, "Disqualifying WHERE Clause Terms Using Unary +".
    return f"+{compiler.process(element.clauses, **more)}"


@dataclass(frozen=True, slots=True)
class DepartureQuery:
    """Which departures: of these queues, in these days, with this outcome, reason or flaky check."""

    first_day: int
    """Days since 1970 in UTC, both ends included."""
    last_day: int
    repository_ids: frozenset[int] | None = None
    """None: of all repositories."""
    base_branch: str | None = None
    outcome: EntryStatus | None = None
    reason: Reason | None = None
    last_only: bool = False
    """Whether only the last departure of each pull request from each queue counts."""
    waited_for: WaitKind | None = None
    """Those that waited for this at all."""
    check: str | None = None
    job: str | None = None

    @property
    def names_check(self) -> bool:
        """Whether only departures with a certain flaky check or job are asked for."""
        return self.check is not None or self.job is not None

    def with_flaky(self, rerun: RerunCheck) -> bool:
        """Return whether a flaky check is one that is asked for."""
        return self.check in (None, rerun.name) and (self.job is None or self.job in rerun.job_names)

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the conditions of a statement. A few departures that it selects may lack the flaky check or job."""
        of = departures.c
        found = self.of_days(departures)
        if self.outcome is not None:
            found.append(of.outcome == self.outcome)
        if self.reason is not None:
            found.append(of.reason == self.reason)
        if self.waited_for is not None:
            found.append(of[self.waited_for] > 0)
        if self.last_only:
            found.append(of.is_last)
        if self.names_check:
            found.append(of.flaky.is_not(None))
        # As JSON has the name: a check's may be that of a job, so that `with_flaky` compares them again.
        stored = cast(of.flaky, Text)
        found += (stored.contains(json.dumps(name), autoescape=True) for name in (self.check, self.job) if name)
        return found

    def of_days(self, table: Table) -> list[ColumnElement[bool]]:
        """Return the conditions of the days and queues, for a table with these columns."""
        of = table.c
        found = [of.day >= self.first_day, of.day <= self.last_day]
        if self.repository_ids is not None:
            of_one = self.base_branch is not None
            column = of.repository_id if of_one else _NotSought(of.repository_id)
            found.append(column.in_(sorted(self.repository_ids)))
        if self.base_branch is not None:
            found.append(of.base_branch == self.base_branch)
        return found


_ADDED = ("departures", "pulls", *WaitKind, "ci_seconds", "ci_known", "reruns")
_SUMS = [func.sum(departure_days.c[name]).label(name) for name in _ADDED]
_FLAKY_SUMS = [func.sum(flaky_days.c[name]).label(name) for name in FLAKY_SUMS]
_HALF = 0.5
_COUNT_REQUESTS = Upsert(
    request_days,
    lambda insert: insert.on_conflict_do_update(
        index_elements=("day", "repository_id"),
        set_={"requests": request_days.c.requests + insert.excluded["requests"]},
    ),
)
_LISTED = [departures.c[name] for name in Departure.__dataclass_fields__]


class Statistics:
    """The sums, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def sums(self, query: DepartureQuery) -> Sequence[Row[Any]]:
        """Return the sums of each outcome and reason: `departures`, each `WaitKind`, CI and reruns.

        `pulls` counts each pull request once for each queue, by its last departure.
        """
        of = departure_days.c
        reason = func.nullif(of.reason, "").label("reason")
        statement = select(of.outcome, reason, *_SUMS).where(*query.of_days(departure_days))
        return (await self._connection.execute(statement.group_by(of.outcome, of.reason))).all()

    async def landings(self, query: DepartureQuery) -> dict[int, int]:
        """Return how many pull requests landed on each day."""
        of = departure_days.c
        where = [*query.of_days(departure_days), of.outcome == EntryStatus.LANDED]
        found = await self._connection.execute(select(of.day, func.sum(of.departures)).where(*where).group_by(of.day))
        return {row[0]: int(row[1]) for row in found}

    async def waited(self, query: DepartureQuery, share: float, *, among: int) -> float | None:
        """Return how long at most this share of the landings waited; `among` is the number of landings."""
        if among == 0:
            return None
        waited, before = departures.c.waited, ceil(share * among) - 1
        # From the nearer end of the index.
        order, skipped = (waited, before) if share <= _HALF else (waited.desc(), among - 1 - before)
        where = replace(query, outcome=EntryStatus.LANDED).conditions()
        statement = select(waited).where(*where).order_by(order).offset(skipped).limit(1)
        return (await self._connection.execute(statement)).scalar_one_or_none()

    async def flaky(self, query: DepartureQuery) -> Sequence[Row[Any]]:
        """Return the sums of each flaky check and job, by `kind` and `name`."""
        of = flaky_days.c
        statement = select(of.kind, of.name, *_FLAKY_SUMS).where(*query.of_days(flaky_days))
        return (await self._connection.execute(statement.group_by(of.kind, of.name))).all()

    async def count_requests(self, day: int, requests: Mapping[int, int]) -> None:
        """Add requests to GitHub to the counts of this day, by the number of the repository."""
        rows = [
            {"day": day, "repository_id": repository_id, "requests": count} for repository_id, count in requests.items()
        ]
        await self._connection.execute(_COUNT_REQUESTS.on(self._connection), rows)

    async def requests(self, query: DepartureQuery) -> tuple[int, int] | None:
        """Return the requests to GitHub for all queues of these repositories, and since which day they were counted.

        None if none was counted.
        """
        of = request_days.c
        where = replace(query, base_branch=None).of_days(request_days)
        found = await self._connection.execute(select(func.sum(of.requests), func.min(of.day)).where(*where))
        total, first = found.one()
        return None if total is None else (int(total), int(first))

    async def listed(self, query: DepartureQuery, *, before: int | None, limit: int) -> Sequence[Departure]:
        """Return the last `limit` of these departures before one of them, newest first."""
        found = list[Departure]()
        while len(found) < limit:
            rows = (await self._connection.execute(_page(query, before, limit))).all()
            found += (each for each in map(departure_in, rows) if _has_flaky(each, query))
            if len(rows) < limit:
                break
            before = rows[-1].id
        return found[:limit]


def _page(query: DepartureQuery, before: int | None, limit: int) -> Select[Any]:
    """Select `limit` departures before one of them, in an order that an index has: nothing sorts those of a year.

    Each index of departures has the days in order, and the numbers of events follow the days. A list of all departures
    reads the primary key.
    """
    of, where = departures.c, query.conditions()
    by_day = query.outcome is not None or query.base_branch is not None or query.names_check
    order = (of.day.desc(), of.id.desc()) if by_day else (of.id.desc(),)
    if before is not None:
        day = func.coalesce(select(of.day).where(of.id == before).scalar_subquery(), query.last_day)
        where += [of.day <= day, or_(of.day < day, of.id < before)] if by_day else [of.id < before]
    return select(*_LISTED).where(*where).order_by(*order).limit(limit)


def _has_flaky(departure: Departure, query: DepartureQuery) -> bool:
    return not query.names_check or any(map(query.with_flaky, departure.flaky))
