"""The port for batches of jobs, which `queue_engine.core.jobs.batch_jobs` uses, and its answers."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from queue_engine.core.jobs.job_store import Job


class BatchKind(StrEnum):
    """How the jobs of one process are done."""

    SYNC = "sync"
    """One after the other."""
    BATCH = "batch"
    """All at once, by a `BatchPort`; one after the other where it cannot."""


class BatchRejection(Exception):
    """These jobs cannot be done as a batch. The message says why; they are done one after the other instead."""


class BatchState(StrEnum):
    """The status of a batch."""

    RUNNING = "running"
    ENDED = "ended"
    """There is a result for each of its jobs."""
    FAILED = "failed"
    """It ended as a whole, without results."""


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """The progress of a batch by its provider: `done` of `total` jobs. `message` is for people."""

    state: BatchState
    done: int
    total: int
    message: str = ""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One job's result."""

    response: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class BatchError:
    """One job's error, which is final."""

    error: str


Result = BatchResult | BatchError


class BatchPort(Protocol):
    """Does jobs as a batch. Every call may be repeated: a caller may have died before it stored the answer.

    What it raises counts as an error of that one question; `BatchRejection` is an answer, to `submit` only.
    """

    async def submit(self, process_id: str, jobs: Sequence[Job]) -> str:
        """Begin a batch, or find the one that was begun for this process already. Returns its id."""
        ...

    async def status(self, batch_job_id: str) -> BatchStatus:
        """Return the progress of a batch."""
        ...

    async def results(self, batch_job_id: str) -> Mapping[str, Result]:
        """The results of a batch that has ended, by the ids of its jobs."""
        ...

    async def cancel(self, batch_job_id: str) -> None:
        """Cancel a batch. One that has ended, or is unknown, is no error."""
        ...
