"""Dead letters: work that failed for good, kept with all that a person needs to do it again.

A dead letter keeps id, process, payload, priority and trace. Done again, its job counts as never tried. An outbox
item is among them by its name; a newer event discards it.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from sqlalchemy import ColumnElement, Row, bindparam, delete, func, select, tuple_
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.core.database.database import Upsert, replacing
from queue_engine.core.jobs.job import Job, JobRequest, failed_jobs, jobs, new_job
from queue_engine.core.jobs.job_store import Jobs
from queue_engine.core.observability.log import logged
from queue_engine.core.observability.progress import Meter, NullMeter
from queue_engine.core.read_model import INTERNAL


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """A job that failed for good. `attempts` counts its tries, `created_at` is when it was first enqueued.

    `retryable` says that a retry may help; one that is not is done again only if somebody names it.
    """

    id: str
    process_id: str
    job_type: str
    error_message: str
    payload: Mapping[str, Any]
    failed_at: datetime
    retryable: bool
    attempts: int
    priority: Annotated[int, INTERNAL]
    created_at: datetime
    trace: str | None

    @property
    def place(self) -> tuple[datetime, str]:
        """Return its position in the list, after which the next page begins."""
        return self.failed_at, self.id


FollowUp = Callable[[DeadLetter], Iterable[JobRequest]]
"""Names the jobs that a new dead letter causes; IMQ stores them with it. Must not raise."""


def no_follow_up(letter: DeadLetter) -> Iterable[JobRequest]:
    """Name no job."""
    return ()


_FIELDS = tuple(failed_jobs.c[name] for name in DeadLetter.__dataclass_fields__)
_ITS_OWN = failed_jobs.c.id == bindparam("its_id")
_KEEP = replacing(failed_jobs)
_GET = select(*_FIELDS).where(_ITS_OWN)
_DISCARD = delete(failed_jobs).where(_ITS_OWN)
_DISCARD_ALL = delete(failed_jobs).where(failed_jobs.c.job_type == bindparam("its_type"))
_AGAIN = Upsert(jobs, lambda insert: insert.on_conflict_do_nothing())


@logged("dead_letters")
class DeadLetters:
    """Dead letters, read and written in the transaction of one connection."""

    def __init__(
        self,
        connection: AsyncConnection,
        due: Callable[[], None] = lambda: None,
        *,
        meter: Meter | None = None,
        follow_up: FollowUp = no_follow_up,
    ) -> None:
        """`due` is called for every dead letter that becomes a job again."""
        self._connection = connection
        self._due = due
        self._meter = meter or NullMeter()
        self._follow_up = follow_up

    async def add(self, job: Job, error: str, now: datetime, *, attempts: int, retryable: bool) -> None:
        """Move a claimed job here. Raises LeaseLost."""
        await Jobs(self._connection).remove(job)
        await self.put(
            DeadLetter(
                id=job.id,
                process_id=job.process_id,
                job_type=job.kind,
                error_message=error,
                payload=job.request,
                failed_at=now,
                retryable=retryable,
                attempts=attempts,
                priority=job.priority,
                created_at=job.created_at,
                trace=job.trace,
            )
        )

    async def put(self, letter: DeadLetter) -> None:
        """Store a dead letter; it replaces an older one with its id."""
        values = {column.name: getattr(letter, column.name) for column in _FIELDS}
        values["payload"] = dict(letter.payload)
        await self._connection.execute(_KEEP.on(self._connection), values)
        jobs_of_letter = Jobs(self._connection, self._due)
        for caused in self._follow_up(letter):
            await jobs_of_letter.enqueue_request(caused, letter.failed_at)
        self._meter.count("jobs_dead", kind=letter.job_type)

    async def list(
        self,
        limit: int,
        *,
        after: tuple[datetime, str] | None = None,
        job_type: str | None = None,
        retryable: bool | None = None,
    ) -> tuple[DeadLetter, ...]:
        """The latest first, at most `limit`; `after` is the `place` of the last one of the page before."""
        wanted = select(*_FIELDS).where(*_matching(job_type, retryable))
        if after is not None:
            wanted = wanted.where(tuple_(failed_jobs.c.failed_at, failed_jobs.c.id) < after)
        latest = wanted.order_by(failed_jobs.c.failed_at.desc(), failed_jobs.c.id.desc()).limit(limit)
        return tuple(map(_letter, await self._connection.execute(latest)))

    async def get(self, item_id: str) -> DeadLetter | None:
        """Return the dead letter with this id; None if there is none."""
        row = (await self._connection.execute(_GET, {"its_id": item_id})).one_or_none()
        return None if row is None else _letter(row)

    async def reprocess(self, item_id: str | None, now: datetime) -> int:
        """Make one, or every retryable one in order, a job again, due now, as if never tried. Returns how many."""
        which = failed_jobs.c.retryable if item_id is None else failed_jobs.c.id == item_id
        taken = await self._connection.execute(delete(failed_jobs).where(which).returning(*_FIELDS))
        letters = sorted(map(_letter, taken), key=lambda letter: letter.place)
        if not letters:
            return 0
        again = [_job_of(letter, now) for letter in letters]
        # A dead letter that is known by what it is about, not by a job, may be on its way already.
        await self._connection.execute(_AGAIN.on(self._connection), again)
        self._due()
        for letter in letters:
            self._meter.count("jobs_reprocessed", kind=letter.job_type)
        return len(letters)

    async def discard(self, item_id: str) -> bool:
        """Delete one for good. False if there is none with this id."""
        return (await self._connection.execute(_DISCARD, {"its_id": item_id})).rowcount == 1

    async def discard_all(self, *job_types: str) -> None:
        """Delete all of these types for good, because their work was done in another way."""
        await self._connection.execute(_DISCARD_ALL, [{"its_type": job_type} for job_type in job_types])

    async def count(self, *, job_type: str | None = None, retryable: bool | None = None) -> int:
        counted = select(func.count()).select_from(failed_jobs).where(*_matching(job_type, retryable))
        return (await self._connection.execute(counted)).scalar_one()


def _matching(job_type: str | None, retryable: bool | None) -> list[ColumnElement[bool]]:
    conditions = []
    if job_type is not None:
        conditions.append(failed_jobs.c.job_type == job_type)
    if retryable is not None:
        conditions.append(failed_jobs.c.retryable.is_(retryable))
    return conditions


def _letter(row: Row[Any]) -> DeadLetter:
    return DeadLetter(**row._mapping)


def _job_of(letter: DeadLetter, now: datetime) -> dict[str, Any]:
    return new_job(letter.job_type, letter.process_id, letter.payload, now, letter.trace) | {
        "id": letter.id,
        "priority": letter.priority,
        "created_at": letter.created_at,
    }
