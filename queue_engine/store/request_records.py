"""Requests of people and programs, in a compact record that outlives its job.

A finished job is deleted, and its record says that IMQ knew the request. So a request is done once neither a job nor a
dead letter has its id. The record is stored in the transaction of its job, and deleted `KEPT` later.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

from sqlalchemy import (
    BigInteger,
    ColumnElement,
    Row,
    Select,
    and_,
    bindparam,
    delete,
    exists,
    or_,
    select,
    tuple_,
    union,
)

from queue_engine.core.database.database import TableStore, Upsert, record_in, values_of
from queue_engine.core.jobs.job import JobStatus, failed_jobs, jobs
from queue_engine.domain.model import Repository
from queue_engine.store.repositories import REPOSITORY_FIELDS, remember, repository_of
from queue_engine.store.tables import outbox, repositories, requests

KEPT = timedelta(hours=72)
"""How long a finished request is known: as long as an idempotency key."""

_MAX_ASKED = 255


class RequestKind(StrEnum):
    """How somebody asked."""

    LABEL = "label"
    """By a label on a pull request."""
    COMMAND = "command"
    """By commands in a comment."""
    CALL = "call"
    """By a call of the API."""
    RETRY = "retry"
    """By retrying a dead letter."""


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """What was asked. `id` is the job's, `asked` the label or the commands, `process_id` a group of requests."""

    id: str
    repository: Repository
    number: int
    kind: RequestKind
    asked: str
    asked_by: str | None
    asked_at: datetime
    process_id: str | None = None


class RequestStatusKind(StrEnum):
    ALL = "all"
    PENDING = "pending"
    """Waiting, being worked on, and retrying."""
    FAILED = "failed"
    DONE = "done"


_OWN_JOB = jobs.c.id == requests.c.id
_OWN_LETTER = failed_jobs.c.id == requests.c.id
_JOB = (
    jobs.c.status.label("job_status"),
    jobs.c.attempt.label("job_attempts"),
    jobs.c.not_before.label("job_not_before"),
    jobs.c.leased_until.label("job_leased_until"),
    jobs.c.error_message.label("job_error"),
)
_LETTER = (
    failed_jobs.c.failed_at,
    failed_jobs.c.error_message.label("letter_error"),
    failed_jobs.c.attempts.label("letter_attempts"),
    failed_jobs.c.retryable,
)
_RECORDS = select(requests, *REPOSITORY_FIELDS[1:], *_JOB, *_LETTER).select_from(
    requests.join(repositories).outerjoin(jobs, _OWN_JOB).outerjoin(failed_jobs, _OWN_LETTER)
)
_RECORD = _RECORDS.where(requests.c.id == bindparam("its_id"))
_IS_PENDING = requests.c.id.in_(select(jobs.c.id).where(jobs.c.status.in_([JobStatus.PENDING, JobStatus.IN_PROGRESS])))
# From the few dead letters to their requests: the requests of three days are many.
_IS_FAILED = requests.c.id.in_(
    union(select(failed_jobs.c.id), select(jobs.c.id).where(jobs.c.status == JobStatus.FAILED))
)
_WANTED = {
    RequestStatusKind.PENDING: _IS_PENDING,
    RequestStatusKind.FAILED: _IS_FAILED,
    RequestStatusKind.DONE: and_(
        failed_jobs.c.id.is_(None), or_(jobs.c.id.is_(None), jobs.c.status == JobStatus.COMPLETED)
    ),
}

_LETTER_REPOSITORY = failed_jobs.c.payload["repository_id"].as_integer()
_LETTERS = select(failed_jobs, *REPOSITORY_FIELDS).select_from(
    failed_jobs.outerjoin(repositories, repositories.c.id == _LETTER_REPOSITORY)
)
_UNRECORDED = ~exists(select(requests.c.id).where(_OWN_LETTER))
_ITEMS = select(outbox, *REPOSITORY_FIELDS[1:]).select_from(outbox.join(repositories))
_ITEM = _ITEMS.where(
    outbox.c.kind == bindparam("its_kind"),
    outbox.c.repository_id == bindparam("its_repository", type_=BigInteger),
    outbox.c.number == bindparam("its_number"),
)
_ADD = Upsert(requests, lambda insert: insert.on_conflict_do_nothing())
_REMOVE = delete(requests).where(requests.c.id == bindparam("its_id"))
_OPEN = or_(
    exists(select(jobs.c.id).where(_OWN_JOB)),
    exists(select(failed_jobs.c.id).where(_OWN_LETTER)),
)
_PURGE = delete(requests).where(requests.c.asked_at < bindparam("before", type_=requests.c.asked_at.type), ~_OPEN)
_WITH_REQUESTS = (
    select(*REPOSITORY_FIELDS)
    .where(
        or_(
            exists(select(requests.c.id).where(requests.c.repository_id == repositories.c.id)),
            exists(
                select(outbox.c.id).where(outbox.c.repository_id == repositories.c.id, outbox.c.due_at.is_not(None))
            ),
            repositories.c.id.in_(select(_LETTER_REPOSITORY)),
        )
    )
    .order_by(repositories.c.id)
)

Place = tuple[datetime, str]
"""The position of a request in a list, the latest first: when it was asked, and its id."""


class Requests(TableStore):
    async def add(self, records: Sequence[RequestRecord]) -> None:
        """Store these records, each in the transaction of its job. A known one stays as it is."""
        for repository in {record.repository.id: record.repository for record in records}.values():
            await remember(self._connection, repository)
        if records:
            await self._connection.execute(_ADD.on(self._connection), list(map(_values, records)))

    async def remove(self, request_id: str) -> None:
        """Forget a request that asked IMQ for nothing, such as an unknown label."""
        await self._connection.execute(_REMOVE, {"its_id": request_id})

    async def get(self, request_id: str) -> Row[Any] | None:
        """Return the row of a record with its job or dead letter; None if there is none."""
        return (await self._connection.execute(_RECORD, {"its_id": request_id})).one_or_none()

    async def letter(self, letter_id: str) -> Row[Any] | None:
        """Return the row of a dead letter with its repository; None if there is none."""
        return (await self._connection.execute(_LETTERS.where(failed_jobs.c.id == letter_id))).one_or_none()

    async def items(self, kind: str, repository_id: int, number: int) -> tuple[Row[Any], ...]:
        """Return the rows of the outbox of one kind for a pull request: several for labels."""
        its_own = {"its_kind": kind, "its_repository": repository_id, "its_number": number}
        return tuple(await self._connection.execute(_ITEM, its_own))

    async def repositories(self) -> tuple[Repository, ...]:
        """Return the repositories that have requests, outbox items to send, or dead letters."""
        return tuple(map(repository_of, await self._connection.execute(_WITH_REQUESTS)))

    async def records(
        self, limit: int, *, of: Collection[int] | None, wanted: RequestStatusKind, after: Place | None
    ) -> tuple[Row[Any], ...]:
        """Return the latest records of these repositories, or of all; `after` is where the page before ended."""
        chosen = _RECORDS if wanted is RequestStatusKind.ALL else _RECORDS.where(_WANTED[wanted])
        if of is not None:
            chosen = chosen.where(requests.c.repository_id.in_(of))
        return await self._page(chosen, (requests.c.asked_at, requests.c.id), limit, after)

    async def letters(self, limit: int, *, of: Collection[int] | None, after: Place | None) -> tuple[Row[Any], ...]:
        """Return the latest dead letters without a record, of these repositories, or of all and of none."""
        chosen = _LETTERS.where(_UNRECORDED)
        if of is not None:
            chosen = chosen.where(_LETTER_REPOSITORY.in_(of))
        return await self._page(chosen, (failed_jobs.c.failed_at, failed_jobs.c.id), limit, after)

    async def waiting_items(self, limit: int, *, of: Collection[int] | None) -> tuple[Row[Any], ...]:
        """Return the outbox items still to be sent, those due first first."""
        chosen = _ITEMS.where(outbox.c.due_at.is_not(None))
        if of is not None:
            chosen = chosen.where(outbox.c.repository_id.in_(of))
        return tuple(await self._connection.execute(chosen.order_by(outbox.c.due_at, outbox.c.id).limit(limit)))

    async def purge(self, before: datetime) -> int:
        """Delete the records of finished requests that were asked before then. Returns how many."""
        return (await self._connection.execute(_PURGE, {"before": before})).rowcount

    async def _page(
        self, chosen: Select[Any], place: tuple[ColumnElement[Any], ColumnElement[Any]], limit: int, after: Place | None
    ) -> tuple[Row[Any], ...]:
        if after is not None:
            chosen = chosen.where(tuple_(*place) < after)
        return tuple(await self._connection.execute(chosen.order_by(*(each.desc() for each in place)).limit(limit)))


def record_of(row: Row[Any]) -> RequestRecord:
    return record_in(RequestRecord, row, repository=repository_of(row), kind=RequestKind(row.kind))


def _values(record: RequestRecord) -> dict[str, Any]:
    values = values_of(record)
    return values | {"repository_id": values.pop("repository").id, "asked": record.asked[:_MAX_ASKED]}
