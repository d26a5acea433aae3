"""Departures: one row for each entry that left its queue, their sums, and merges that GitHub may finish after them.

With each departure its day's sums change, so that statistics need not read all departures.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime, time
from math import ceil
from typing import Any, Literal

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Integer,
    Row,
    Select,
    Table,
    Text,
    and_,
    bindparam,
    case,
    cast,
    delete,
    exists,
    func,
    or_,
    select,
    update,
)
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.compiler import SQLCompiler
from sqlalchemy.sql.functions import FunctionElement

from queue_engine.core.database.database import TableStore, Upsert, adding, replacing, values_of
from queue_engine.core.read_model import adapter
from queue_engine.domain.departure import FLAKY_JOB_SUMS, JOB_SUMS, Departure, RerunCheck
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.model import Entry, EntryStatus
from queue_engine.domain.reasons import Reason, WaitKind
from queue_engine.domain.run import Run, RunState
from queue_engine.store.repositories import REPOSITORY_FIELDS, repository_of
from queue_engine.store.tables import (
    departure_days,
    departures,
    flaky_days,
    pending_merges,
    queues,
    repositories,
    request_days,
)

FlakyKind = Literal["check", "job", "test"]

FLAKY_SUMS = ("pulls", "reruns", "ci_seconds", "ci_known", "waited", "runs", "failures", *FLAKY_JOB_SUMS)
_NOTHING: dict[str, float] = dict.fromkeys(FLAKY_SUMS, 0)
ADD_FLAKY = adding(flaky_days, *FLAKY_SUMS)


@dataclass(frozen=True, slots=True)
class CheckCount:
    """How often a check, or a test, ran on trees that passed in the end, and how often it failed there before."""

    name: str
    runs: int
    failures: int


def flaky_sums(departure: Departure, day: int) -> list[dict[str, Any]]:
    """Return what a departure adds: a row for each of its flaky checks, and for each job."""
    of_queue = {"day": day, "repository_id": departure.repository_id, "base_branch": departure.base_branch}
    added: dict[tuple[FlakyKind, str], dict[str, float]] = defaultdict(lambda: {**_NOTHING, "pulls": 1})
    for check in departure.flaky:
        _add(added["check", check.name], check, 1)
        for job in check.job_names:
            _add(added["job", job], check, len(check.job_names))
    return [{**of_queue, "kind": kind, "name": name, **sums} for (kind, name), sums in sorted(added.items())]


def _add(sums: dict[str, float], check: RerunCheck, jobs: int) -> None:
    """Add a check's cost, divided among its jobs."""
    sums["reruns"] += check.reruns
    sums["waited"] += check.waited / jobs
    if check.ci_seconds is not None:
        sums["ci_seconds"] += check.ci_seconds / jobs
        sums["ci_known"] += 1
    if check.ci_minutes is not None:
        sums["ci_minutes"] += check.ci_minutes / jobs
        sums["ci_cost"] += (check.ci_cost or 0.0) / jobs
        sums["priced"] += check.ci_cost is not None


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
ADD_DAYS = adding(departure_days, *_SUMS)
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


class Departures(TableStore):
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
    row = values_of(departure)
    flaky = [asdict(each) for each in departure.flaky] or None
    return row | {"flaky": flaky, "is_last": is_last, "day": day_of(departure.left_at)}


def departure_in(row: Row[Any]) -> Departure:
    values = {name: row._mapping[name] for name in Departure.__dataclass_fields__}
    reason = None if row.reason is None else Reason(row.reason)
    flaky = adapter(tuple[RerunCheck, ...]).validate_python(row.flaky or ())
    return Departure(**values | {"outcome": EntryStatus(row.outcome), "reason": reason, "flaky": flaky})


_ENTRY_FIELDS = ("number", "queue_id", "title", "author", "queued_by", "queued_head", "head_sha", "enqueued_at")
_RUN_FIELDS = ("base_tip", "tested_tree", "merge_uuid", "started_at")
_MERGES_OF_REPOSITORY = pending_merges.c.repository_id == bindparam("its_repository")
_ITS_MERGE = and_(_MERGES_OF_REPOSITORY, pending_merges.c.number == bindparam("its_number"))
_FIND_MERGE: Select[Any] = (
    select(
        *(column for column in pending_merges.c if not column.primary_key),
        pending_merges.c.number,
        queues.c.base_branch,
        *REPOSITORY_FIELDS,
    )
    .join(queues, queues.c.id == pending_merges.c.queue_id)
    .join(repositories, repositories.c.id == queues.c.repository_id)
    .where(_ITS_MERGE)
)
_MERGE_NUMBERS = select(pending_merges.c.number).where(_MERGES_OF_REPOSITORY).order_by(pending_merges.c.number)
_REMOVE_MERGE = delete(pending_merges).where(_ITS_MERGE)
_PURGE_MERGES = delete(pending_merges).where(pending_merges.c.left_at < bindparam("before"))
_PUT_MERGE = replacing(pending_merges)


class PendingMerges(TableStore):
    async def put(self, entry: Entry, now: datetime) -> None:
        """Store what an entry that leaves had tested, in place of an earlier merge of its pull request."""
        values = {name: getattr(entry, name) for name in (*_ENTRY_FIELDS, "own_check_required")}
        values |= {name: getattr(entry.run, name) for name in _RUN_FIELDS}
        values["proof"] = adapter(LandingProof | None).dump_python(entry.run.proof, mode="json")
        its_own = {"repository_id": entry.repository.id, "entry_id": entry.id, "left_at": now}
        await self._connection.execute(_PUT_MERGE.on(self._connection), {**values, **its_own})

    async def find(self, repository_id: int, number: int) -> Entry | None:
        """Return the entry as it was when it left, ready to merge; None if its merge is settled."""
        row = (await self._connection.execute(_FIND_MERGE, _of(repository_id, number))).one_or_none()
        if row is None:
            return None
        found = Entry(
            id=row.entry_id,
            repository=repository_of(row),
            base_branch=row.base_branch,
            status_since=row.left_at,
            version=0,
            run=Run(
                state=RunState.PASSED,
                **{name: getattr(row, name) for name in _RUN_FIELDS},
                proof=adapter(LandingProof | None).validate_python(row.proof),
            ),
            **{name: getattr(row, name) for name in _ENTRY_FIELDS},
        )
        return replace(found, own_check_required=row.own_check_required)

    async def numbers(self, repository_id: int) -> tuple[int, ...]:
        return tuple((await self._connection.execute(_MERGE_NUMBERS, {"its_repository": repository_id})).scalars())

    async def remove(self, repository_id: int, number: int) -> bool:
        """Delete the merge of a pull request, since it is settled; whether there was one."""
        return bool((await self._connection.execute(_REMOVE_MERGE, _of(repository_id, number))).rowcount)

    async def purge(self, before: datetime) -> None:
        """Delete the merges of entries that left before this instant."""
        await self._connection.execute(_PURGE_MERGES, {"before": before})


def _of(repository_id: int, number: int) -> dict[str, int]:
    return {"its_repository": repository_id, "its_number": number}


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


_ADDED = ("departures", "pulls", *WaitKind, "ci_seconds", "ci_known", "reruns", *JOB_SUMS)
_DAY_SUMS = [func.sum(departure_days.c[name]).label(name) for name in _ADDED]
_FLAKY_SUMS = [func.sum(flaky_days.c[name]).label(name) for name in FLAKY_SUMS]
_HALF = 0.5
_MOST_COUNTED = 200
"""Checks of one run that are counted."""
_MOST_DEPARTURES = 2_000
"""Departures whose authors are counted."""
_COUNT_REQUESTS = adding(request_days)
_LISTED = [departures.c[name] for name in Departure.__dataclass_fields__]


class Statistics(TableStore):
    async def sums(self, query: DepartureQuery) -> Sequence[Row[Any]]:
        """Return sums by outcome and reason: `departures`, waits, CI, reruns, and `pulls`, each once by its last."""
        of = departure_days.c
        reason = func.nullif(of.reason, "").label("reason")
        statement = select(of.outcome, reason, *_DAY_SUMS).where(*query.of_days(departure_days))
        return (await self._connection.execute(statement.group_by(of.outcome, of.reason))).all()

    async def landings(self, query: DepartureQuery) -> dict[int, int]:
        """Return how many pull requests landed on each day."""
        of = departure_days.c
        where = [*query.of_days(departure_days), of.outcome == EntryStatus.LANDED]
        found = await self._connection.execute(select(of.day, func.sum(of.departures)).where(*where).group_by(of.day))
        return {row[0]: int(row[1]) for row in found}

    async def by_queue(self, query: DepartureQuery) -> dict[tuple[int, str, int, str], int]:
        """Count the departures by repository, base branch, day and outcome."""
        of = departure_days.c
        each = (of.repository_id, of.base_branch, of.day, of.outcome)
        statement = select(*each, func.sum(of.departures)).where(*query.of_days(departure_days)).group_by(*each)
        found = await self._connection.execute(statement)
        return {(row[0], row[1], row[2], row[3]): int(row[4]) for row in found}

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
        """Return the sums of each flaky check, job and test, by `kind` and `name`, with the first day of a flake."""
        of = flaky_days.c
        flaked = or_(of.pulls > 0, of.failures > 0)
        first = func.min(case((flaked, of.day))).label("first_day")
        statement = select(of.kind, of.name, first, *_FLAKY_SUMS).where(*query.of_days(flaky_days))
        flaked_ever = statement.group_by(of.kind, of.name).having(first.is_not(None))
        return (await self._connection.execute(flaked_ever)).all()

    async def check_history(self, repository_id: int, base_branch: str, check: str, first_day: int) -> tuple[int, int]:
        """Return how often a check failed on trees that passed in the end, and in how many runs, since that day."""
        of = flaky_days.c
        summed = select(*(func.coalesce(func.sum(each), 0) for each in (of.failures, of.runs))).where(
            *(of.repository_id == repository_id, of.base_branch == base_branch, of.kind == "check", of.name == check),
            of.day >= first_day,
        )
        failures, runs = (await self._connection.execute(summed)).one()
        return int(failures), int(runs)

    async def count_checks(
        self,
        repository_id: int,
        base_branch: str,
        day: int,
        counted: Iterable[CheckCount],
        kind: FlakyKind = "check",
        **more: float,
    ) -> None:
        """Add the runs and failures of checks, or of tests, to the counts of this day; with `more` sums of each."""
        of_queue = {"day": day, "repository_id": repository_id, "base_branch": base_branch, "kind": kind}
        ordered = sorted(counted, key=lambda each: each.name)[:_MOST_COUNTED]
        rows = [{**_NOTHING, **of_queue, **more, **asdict(each)} for each in ordered]
        if rows:
            await self._connection.execute(ADD_FLAKY.on(self._connection), rows)

    async def delayed_people(self, query: DepartureQuery) -> dict[tuple[FlakyKind, str], int]:
        """Return how many authors had a pull request with each flaky check or job, of the newest departures."""
        of = departures.c
        statement = select(of.author, of.flaky).where(*query.of_days(departures), of.flaky.is_not(None))
        authors: dict[tuple[FlakyKind, str], set[str | None]] = defaultdict(set)
        for row in await self._connection.execute(statement.order_by(of.day.desc()).limit(_MOST_DEPARTURES)):
            for check in adapter(tuple[RerunCheck, ...]).validate_python(row.flaky):
                authors["check", check.name].add(row.author)
                for job in check.job_names:
                    authors["job", job].add(row.author)
        return {key: len(found) for key, found in authors.items()}

    async def count_requests(self, day: int, requests: Mapping[int, int]) -> None:
        """Add requests to GitHub to the counts of this day, by the number of the repository."""
        rows = [
            {"day": day, "repository_id": repository_id, "requests": count} for repository_id, count in requests.items()
        ]
        await self._connection.execute(_COUNT_REQUESTS.on(self._connection), rows)

    async def requests(self, query: DepartureQuery) -> tuple[int, int] | None:
        """Return the requests for all queues of these repositories, and since which day; None if none was counted."""
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
