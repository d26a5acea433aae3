"""Candidate runs: tests of several entries together, on branches of IMQ's own.

The row of `runs` that belongs to one has the progress of its checks. Every write is compare-and-set on both versions.
"""

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import Any

from sqlalchemy import (
    BindParameter,
    Integer,
    Row,
    String,
    and_,
    bindparam,
    cast,
    delete,
    insert,
    or_,
    select,
    union_all,
    update,
)
from sqlalchemy.ext.asyncio import AsyncConnection

from queue_engine.domain.candidate_run import CandidateMember, CandidateRun, CandidateState, CandidateTrigger
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.facts import MergeMethod
from queue_engine.domain.model import EntryStatus
from queue_engine.domain.reasons import Reason
from queue_engine.store.runs import RUN_FIELDS, Runs, run_of
from queue_engine.store.tables import candidate_runs, entries, queues, runs

_ID = candidate_runs.c.id == bindparam("its_id", type_=Integer)
_ALL = (
    select(candidate_runs, queues.c.base_branch, *RUN_FIELDS)
    .join(queues, queues.c.id == candidate_runs.c.queue_id)
    .join(runs, runs.c.id == candidate_runs.c.run_id)
    .order_by(candidate_runs.c.id)
)
_GET = _ALL.where(_ID)
_OF_QUEUE = _ALL.where(candidate_runs.c.queue_id == bindparam("its_queue", type_=Integer))
_OF_QUEUES = _ALL.where(candidate_runs.c.queue_id.in_(bindparam("its_queues", expanding=True)))
_OF_COMMIT = _ALL.where(
    queues.c.repository_id == bindparam("its_repository"),
    candidate_runs.c.candidate == bindparam("its_commit"),
    candidate_runs.c.state != CandidateState.ENDED,
)
_IN_REPOSITORY = _ALL.where(queues.c.repository_id == bindparam("its_repository"))
_ADD = insert(candidate_runs).returning(candidate_runs.c.id)
_SAVE = update(candidate_runs).where(
    and_(_ID, candidate_runs.c.version == bindparam("its_version", type_=Integer)),
)
_REMOVE = delete(candidate_runs).where(_ID)


class CandidateRuns:
    """The candidate runs, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection
        self._runs = Runs(connection)

    async def add(self, run: CandidateRun) -> CandidateRun:
        """Store a new run; returns it with its id."""
        test = await self._runs.add(run.test)
        added = await self._connection.execute(
            _ADD, {**_values(run), "queue_id": run.queue_id, "run_id": test.id, "version": 1}
        )
        return replace(run, id=added.scalar_one(), version=1, test=test)

    async def save(self, run: CandidateRun) -> CandidateRun:
        """Store the changed run and its progress, and return it with its new versions.

        Raises StaleRecord when another transaction changed or removed it since it was read.
        """
        version = run.version + 1
        its_own = {"its_id": run.id, "its_version": run.version}
        changed = await self._connection.execute(_SAVE, {**_values(run), "version": version, **its_own})
        if changed.rowcount != 1:
            raise StaleRecord(f"candidate run {run.id} is no longer at version {run.version}")
        return replace(run, version=version, test=await self._runs.save(run.test))

    async def note_landed(self, run_id: int, number: int, sha: str) -> None:
        """Store the commit that landed a member of a run, if the run is known."""
        if (run := await self.get(run_id)) is not None:
            members = tuple(replace(each, landed_sha=sha) if each.number == number else each for each in run.members)
            await self.save(replace(run, members=members))

    async def remove(self, run: CandidateRun) -> None:
        """Delete a run with its progress; nothing if it is gone."""
        await self._connection.execute(_REMOVE, {"its_id": run.id})
        await self._runs.end(run.test)

    async def get(self, run_id: int) -> CandidateRun | None:
        """Return the run with this id, whatever its state."""
        return next(iter(await self._read(_GET, its_id=run_id)), None)

    async def of_queue(self, queue_id: int) -> tuple[CandidateRun, ...]:
        """Return the runs of a queue that have not ended, oldest first."""
        found = await self._read(_OF_QUEUE, its_queue=queue_id)
        return tuple(run for run in found if run.state is not CandidateState.ENDED)

    async def of_queues(self, queue_ids: Collection[int]) -> tuple[CandidateRun, ...]:
        """Return the runs of these queues that have not ended, oldest first."""
        found = await self._read(_OF_QUEUES, its_queues=list(queue_ids))
        return tuple(run for run in found if run.state is not CandidateState.ENDED)

    async def of_commit(self, repository_id: int, sha: str) -> tuple[CandidateRun, ...]:
        """Return the runs of this repository that test this commit."""
        return await self._read(_OF_COMMIT, its_repository=repository_id, its_commit=sha)

    async def of_repository(self, repository_id: int) -> tuple[CandidateRun, ...]:
        """Return every run of a repository, those that have ended too."""
        return await self._read(_IN_REPOSITORY, its_repository=repository_id)

    async def _read(self, statement: Any, **its_own: object) -> tuple[CandidateRun, ...]:
        return tuple(map(_run, await self._connection.execute(statement, its_own)))


def _values(run: CandidateRun) -> dict[str, Any]:
    return {
        "state": run.state.value,
        "trigger": run.trigger.value,
        "base_tip": run.base_tip,
        "candidate": run.candidate,
        "members": [asdict(each) for each in run.members],
        "tested": sorted(run.tested),
        "pull_request": run.pull_request,
        "started_at": run.started_at,
        "published_at": run.published_at,
    }


def _run(row: Row[Any]) -> CandidateRun:
    return CandidateRun(
        id=row.id,
        queue_id=row.queue_id,
        base_branch=row.base_branch,
        base_tip=row.base_tip,
        members=tuple(CandidateMember(**{**member, "method": MergeMethod(member["method"])}) for member in row.members),
        tested=frozenset(row.tested),
        trigger=CandidateTrigger(row.trigger),
        state=CandidateState(row.state),
        started_at=row.started_at,
        version=row.version,
        candidate=row.candidate,
        published_at=row.published_at,
        pull_request=row.pull_request,
        test=run_of(row),
    )


_REPOSITORIES: BindParameter[int] = bindparam("repositories", expanding=True)
_WAIT_FOR_CHECKS = (Reason.CHECKS_FAILED, Reason.CHECK_ABSENT)
_UNDER_WAY = union_all(
    select(entries.c.repository_id, entries.c.head, runs.c.candidate)
    .join(runs, runs.c.id == entries.c.run_id)
    .where(
        entries.c.repository_id.in_(_REPOSITORIES),
        entries.c.status.in_([EntryStatus.UPDATING, EntryStatus.CHECKING]),
        runs.c.candidate_run.is_(None),
    ),
    select(queues.c.repository_id, candidate_runs.c.base_tip, candidate_runs.c.candidate)
    .join(queues, queues.c.id == candidate_runs.c.queue_id)
    .where(queues.c.repository_id.in_(_REPOSITORIES), candidate_runs.c.candidate.is_not(None)),
    select(entries.c.repository_id, entries.c.head, entries.c.head).where(
        entries.c.repository_id.in_(_REPOSITORIES),
        or_(*(cast(entries.c.unmet, String).contains(each.value, autoescape=True) for each in _WAIT_FOR_CHECKS)),
    ),
)


class CandidateCommits:
    """The commits under test, on one connection."""

    def __init__(self, connection: AsyncConnection) -> None:
        self._connection = connection

    async def under_way(self, repository_ids: Collection[int]) -> tuple[tuple[int, str, str | None], ...]:
        """Return the tests under way in these repositories: repository, head (or base) and candidate.

        The head of an entry that waits for its own failed checks is a candidate, too.
        """
        rows = await self._connection.execute(_UNDER_WAY, {"repositories": list(repository_ids)})
        return tuple((row.repository_id, row.head, row.candidate) for row in rows)
