"""A job as read from the database, and the claim under which a worker runs it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import uuid4

from sqlalchemy import Row

from queue_engine.core.jobs.job_table import POISON_DEATHS, JobStatus, jobs


class LeaseLost(Exception):
    """The lease on this job was lost: roll back, another worker does it."""


@dataclass(frozen=True, slots=True)
class Job:
    """A job as it was when read. `seq` is its position in the order of arrival, never used twice.

    `attempt` counts the tries that failed, `deaths` the last ones in a row that ended with their worker, and `claims`
    every time that a worker took it. `holds` counts how often it was held, by the reason, where its handler named one.
    """

    seq: int
    id: str
    process_id: str
    kind: str
    request: Mapping[str, Any]
    status: JobStatus
    response: Mapping[str, Any] | None
    error_message: str | None
    attempt: int
    deaths: int
    priority: int
    not_before: datetime
    created_at: datetime
    owner: str | None
    claims: int
    holds: Mapping[str, int]
    trace: str | None
    """The W3C traceparent of what it belongs to, so that a delivery can be followed through all that it caused."""

    @property
    def poison(self) -> bool:
        """Whether its workers died again and again since it last failed or was held, if it ever was."""
        return self.deaths >= POISON_DEATHS


@dataclass(frozen=True, slots=True)
class JobRequest:
    """A job to be stored: its kind, its process and its content. A higher `priority` goes first."""

    kind: str
    process_id: str
    request: Mapping[str, Any]
    priority: int = 0


_RENAMED = {"request": "request_json", "response": "response_json"}
_COLUMNS = {name: _RENAMED.get(name, name) for name in Job.__dataclass_fields__}
FIELDS = tuple(jobs.c[name] for name in _COLUMNS.values())
"""The columns that a `Job` is read from."""


def new_job(kind: str, process_id: str, request: Mapping[str, Any], now: datetime, trace: str | None) -> dict[str, Any]:
    """The row of a job that was never tried, due now."""
    return {
        "id": uuid4().hex,
        "process_id": process_id,
        "kind": kind,
        "request_json": dict(request),
        "status": JobStatus.PENDING,
        "attempt": 0,
        "deaths": 0,
        "priority": 0,
        "not_before": now,
        "created_at": now,
        "updated_at": now,
        "claims": 0,
        "trace": trace,
    }


def job_of(row: Row[Any]) -> Job:
    """Convert a row to a job."""
    values = {name: row._mapping[column] for name, column in _COLUMNS.items()}
    return Job(**(values | {"status": JobStatus(row.status), "holds": row.holds or {}}))


def claimed(job: Job) -> dict[str, Any]:
    """What `queue_engine.core.jobs.job_table.CLAIMED` asks for: the claim that `job` was read from."""
    return {"its_seq": job.seq, "its_owner": job.owner, "its_claims": job.claims}


def lost(job: Job) -> LeaseLost:
    """Return the error for a lost claim."""
    return LeaseLost(f"job {job.id} ({job.kind}) is no longer held by {job.owner}")
