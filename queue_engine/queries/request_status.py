"""Load requests of people and programs with their states: jobs, outbox items and dead letters as one list.

A job, its dead letter and its record share one id. An outbox item is named after its pull request (`comment-7-42`), so
that the item and its dead letter are one request.
"""

import heapq
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from hashlib import sha256
from typing import Annotated, Any

from sqlalchemy import Row

from queue_engine.core.database.database import values_of
from queue_engine.core.jobs.job import JobStatus
from queue_engine.core.read_model import INTERNAL, serialized
from queue_engine.domain.model import RepositoryName
from queue_engine.store import Transaction
from queue_engine.store.outbox.items import NAME, OUTBOX_JOB, OutboxKind, dead_id
from queue_engine.store.repositories import repository_of
from queue_engine.store.request_records import Place, RequestStatusKind, record_of

_ITEM_ID = re.compile(r"(comment|check_run|label)-(\d+)-(\d+)(?:-([0-9a-f]{16}))?")


class RequestState(StrEnum):
    """How far a request is."""

    WAITING = "waiting"
    PROCESSING = "processing"
    """A worker or dispatcher holds its lease, and works on it now."""
    RETRYING = "retrying"
    """An attempt failed, and another follows by itself."""
    FAILED = "failed"
    DONE = "done"


PENDING = frozenset({RequestState.WAITING, RequestState.PROCESSING, RequestState.RETRYING})
"""The states in which a monitor polls a request."""


@dataclass(frozen=True, slots=True)
class RequestStatus:
    """A request. `kind` says how it was asked, or what it is; `repository` is None for work of no repository.

    `since` is when the last attempt ended, or else when the request was asked. `attempts` counts the failed ones.
    `letter_id` is the dead letter of a failed one, `is_retryable` whether a retry may help.
    """

    id: str
    kind: str
    repository: RepositoryName | None
    number: int | None
    asked: str
    asked_by: str | None
    asked_at: datetime
    state: RequestState
    since: datetime | None
    process_id: str | None = None
    attempts: int = 0
    next_try_at: datetime | None = None
    error: str | None = None
    is_retryable: Annotated[bool, INTERNAL] = False
    letter_id: Annotated[str | None, INTERNAL] = None

    @property
    def pending(self) -> bool:
        """Whether the request is neither done nor failed."""
        return self.state in PENDING

    @serialized
    def status(self) -> str:
        """`pending` while `state` is `waiting`, `processing` or `retrying`, and else the same as `state`."""
        return "pending" if self.pending else self.state.value

    @serialized
    def retryable(self) -> bool:
        """Whether there is a dead letter to retry."""
        return self.letter_id is not None

    @property
    def place(self) -> Place:
        """Return its position in a list."""
        return self.asked_at, self.letter_id or self.id


async def load_request(tx: Transaction, request_id: str, now: datetime) -> RequestStatus | None:
    """Load one request; None if IMQ does not know it (any more)."""
    if (item := _ITEM_ID.fullmatch(request_id)) is not None:
        return await _load_item(tx, request_id, item, now)
    if (row := await tx.requests.get(request_id)) is not None:
        return _of_record(row, now)
    letter = await tx.requests.letter(request_id)
    return None if letter is None else _of_letter(letter)


async def load_requests(
    tx: Transaction,
    limit: int,
    now: datetime,
    *,
    of: Collection[int] | None,
    wanted: RequestStatusKind = RequestStatusKind.ALL,
    after: Place | None = None,
) -> tuple[RequestStatus, ...]:
    """Load the latest requests of these repositories, at most `limit`; with None of all, and of no repository.

    Outbox items to be sent are on the first page, beside the `limit`: they have no place among the others.
    """
    if of is not None and not of:
        return ()
    records = [_of_record(row, now) for row in await tx.requests.records(limit, of=of, wanted=wanted, after=after)]
    letters, items = [], []
    if wanted in {RequestStatusKind.ALL, RequestStatusKind.FAILED}:
        letters = [_of_letter(row) for row in await tx.requests.letters(limit, of=of, after=after)]
    if wanted in {RequestStatusKind.ALL, RequestStatusKind.PENDING} and after is None:
        items = [_of_item(row, now) for row in await tx.requests.waiting_items(limit, of=of)]
    latest = heapq.merge(records, letters, key=lambda each: each.place, reverse=True)
    return (*items, *list(latest)[:limit])


def item_id(its_name: Mapping[str, Any]) -> str:
    """Return the id of an outbox item as a request, by the name that its dead letter has."""
    kind, repository_id, number = (its_name[part] for part in NAME[:3])
    label = its_name.get("label", "")
    of_label = f"-{sha256(label.encode()).hexdigest()[:16]}" if label else ""
    return f"{kind}-{repository_id}-{number}{of_label}"


async def _load_item(tx: Transaction, request_id: str, found: re.Match[str], now: datetime) -> RequestStatus | None:
    kind, repository_id, number, _ = found.groups()
    if int(repository_id) >= 2**63:
        return None
    for row in await tx.requests.items(kind, int(repository_id), int(number)):
        if item_id(dict(row._mapping)) == request_id:
            return await _after_retry(tx, _of_item(row, now), f"{row.repository_id}:{row.number}")
    return None


async def _after_retry(tx: Transaction, item: RequestStatus, process_id: str) -> RequestStatus:
    """Return a dead item as waiting while the job that resends it is stored, and without a discarded dead letter."""
    if item.letter_id is None or await tx.dead_letters.get(item.letter_id) is not None:
        return item
    if any(job.id == item.letter_id for job in await tx.jobs.unfinished(process_id)):
        return replace(item, state=RequestState.WAITING, letter_id=None, is_retryable=False)
    return replace(item, letter_id=None, is_retryable=False)


def _of_record(row: Row[Any], now: datetime) -> RequestStatus:
    record = record_of(row)
    state, since, attempts, error = RequestState.DONE, None, 0, None
    next_try_at: datetime | None = None
    if row.job_status in {JobStatus.PENDING, JobStatus.IN_PROGRESS}:
        attempts, error = row.job_attempts, row.job_error
        state = _unfinished(attempts, row.job_leased_until, now)
        since = record.asked_at
        next_try_at = row.job_not_before if row.job_status == JobStatus.PENDING else None
    elif row.job_status == JobStatus.FAILED:
        state, attempts, error = RequestState.FAILED, row.job_attempts, row.job_error
    elif row.failed_at is not None:
        state, since = RequestState.FAILED, row.failed_at
        attempts, error = row.letter_attempts, row.letter_error
    return RequestStatus(
        **values_of(record),
        state=state,
        since=since,
        attempts=attempts,
        next_try_at=next_try_at,
        error=error,
        is_retryable=bool(row.retryable),
        letter_id=record.id if row.failed_at is not None else None,
    )


def _unfinished(attempts: int, leased_until: datetime | None, now: datetime) -> RequestState:
    """Return the state of a job or item: after its lease, a process that died no longer works on it."""
    if leased_until is not None and leased_until > now:
        return RequestState.PROCESSING
    return RequestState.RETRYING if attempts else RequestState.WAITING


def _of_letter(row: Row[Any]) -> RequestStatus:
    item = row.job_type == OUTBOX_JOB and all(name in row.payload for name in NAME[:3])
    number = row.payload.get("number")
    return RequestStatus(
        id=item_id(row.payload) if item else row.id,
        kind=row.payload["kind"] if item else row.job_type,
        repository=None if row.repository_id is None else repository_of(row),
        number=number if isinstance(number, int) else None,
        asked=str(row.payload.get("label") or "") if item else "",
        asked_by=None,
        asked_at=row.failed_at,
        state=RequestState.FAILED,
        since=row.failed_at,
        attempts=row.attempts,
        error=row.error_message,
        is_retryable=row.retryable,
        letter_id=row.id,
    )


def _of_item(row: Row[Any], now: datetime) -> RequestStatus:
    state = RequestState.DONE
    if row.dead:
        state = RequestState.FAILED
    elif row.due_at is not None:
        state = _unfinished(row.attempts, row.leased_until, now)
    return RequestStatus(
        id=item_id(dict(row._mapping)),
        kind=row.kind,
        repository=repository_of(row),
        number=row.number,
        asked=_desired(row),
        asked_by=None,
        asked_at=row.updated_at,
        state=state,
        since=row.updated_at,
        attempts=row.attempts,
        next_try_at=row.due_at,
        error=row.error,
        is_retryable=row.dead,
        letter_id=dead_id(row.kind, row.repository_id, row.number, row.label) if row.dead else None,
    )


def _desired(row: Row[Any]) -> str:
    """Say what GitHub shall show."""
    if row.kind != OutboxKind.LABEL:
        return ""
    return f"{'set' if row.label_on else 'remove'} {row.label}"
