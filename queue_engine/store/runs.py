"""Runs: the attempts to land entries.

The row of an entry names its run. A run without a branch is written with its only entry (`queue_engine.store.entries`).
One on a branch of IMQ's own, which all of its members name, is written here alone. Each write is compare-and-set on the
version.
"""

from collections.abc import Collection
from dataclasses import replace
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

from queue_engine.core.database.database import TableStore
from queue_engine.core.read_model import adapter
from queue_engine.domain.errors import StaleRecord
from queue_engine.domain.landing_record import LandingProof
from queue_engine.domain.reasons import Reason
from queue_engine.domain.run import NOT_BEGUN, CandidateTrigger, CheckTiming, Run, RunMember, RunState
from queue_engine.store.tables import entries, queues, runs

_STORED = tuple(name for name in Run.__dataclass_fields__ if name in runs.c and name not in ("id", "version"))
_COLUMNS = {name: f"run_{name}" for name in ("version", *_STORED)}
RUN_FIELDS = tuple(runs.c[name].label(label) for name, label in _COLUMNS.items())
"""Columns that `run_of` reads beside a member's `run_id`."""
_READ: dict[str, Any] = {
    "timings": tuple[CheckTiming, ...],
    "members": tuple[RunMember, ...],
    "tested": frozenset[int],
    "state": RunState | None,
    "trigger": CandidateTrigger | None,
    "proof": LandingProof | None,
}
"""The types of values that are not stored as they are."""

_ID = runs.c.id == bindparam("its_id", type_=Integer)
_ALL = (
    select(runs.c.id.label("run_id"), queues.c.base_branch, *RUN_FIELDS)
    .join(queues, queues.c.id == runs.c.queue_id)
    .order_by(runs.c.id)
)
_GET = _ALL.where(_ID)
OF_OWN_HEAD = and_(runs.c.trigger.is_(None), runs.c.state.in_([RunState.BUILDING, RunState.TESTING]))
"""Whether the run of an entry updates or checks its own head."""
_NOT_ENDED = runs.c.state != RunState.ENDED
_OF_QUEUES = _ALL.where(runs.c.queue_id.in_(bindparam("its_queues", expanding=True)), _NOT_ENDED)
_IN_REPOSITORY = _ALL.where(queues.c.repository_id == bindparam("its_repository"))
_OF_COMMIT = _IN_REPOSITORY.where(runs.c.candidate == bindparam("its_commit"), _NOT_ENDED)
_ADD = insert(runs).returning(runs.c.id)
_SAVE = update(runs).where(and_(_ID, runs.c.version == bindparam("its_version", type_=Integer)))
_REMOVE = delete(runs).where(_ID)


class Runs(TableStore):
    async def add(self, run: Run) -> Run:
        """Store a new run; returns the run with its id."""
        added = await self._connection.execute(_ADD, {**_values(run), "version": 1})
        return replace(run, id=added.scalar_one(), version=1)

    async def save(self, run: Run) -> Run:
        """Store the changed run; return it with its new version. Raises StaleRecord if it changed or ended."""
        version = run.version + 1
        its_own = {"its_id": run.id, "its_version": run.version}
        changed = await self._connection.execute(_SAVE, {**_values(run), "version": version, **its_own})
        if changed.rowcount != 1:
            raise StaleRecord(f"run {run.id} is no longer at version {run.version}")
        return replace(run, version=version)

    async def note_landed(self, run_id: int, number: int, sha: str) -> Run | None:
        """Store the commit that landed a member of a run, and return the run as it was; None if it is not known."""
        if (run := await self.get(run_id)) is not None:
            members = tuple(replace(each, landed_sha=sha) if each.number == number else each for each in run.members)
            await self.save(replace(run, members=members))
        return run

    async def end(self, run: Run) -> None:
        """Delete a run without a branch, which its entry has left; nothing for a run that was never stored."""
        if run.id is not None and not run.has_branch:
            await self.remove(run)

    async def remove(self, run: Run) -> None:
        """Delete a run; nothing if it is gone."""
        await self._connection.execute(_REMOVE, {"its_id": run.id})

    async def get(self, run_id: int) -> Run | None:
        """Return the run of several members with this id, whatever its state."""
        return next(iter(await self._read(_GET, its_id=run_id)), None)

    async def of_queue(self, queue_id: int) -> tuple[Run, ...]:
        """Return the runs of several members of a queue that have not ended, oldest first."""
        return await self.of_queues([queue_id])

    async def of_queues(self, queue_ids: Collection[int]) -> tuple[Run, ...]:
        return await self._read(_OF_QUEUES, its_queues=list(queue_ids))

    async def of_commit(self, repository_id: int, sha: str) -> tuple[Run, ...]:
        """Return the runs of this repository that test this commit on a branch of IMQ's own."""
        return await self._read(_OF_COMMIT, its_repository=repository_id, its_commit=sha)

    async def of_repository(self, repository_id: int) -> tuple[Run, ...]:
        """Return every run of several members of a repository, those that have ended too."""
        return await self._read(_IN_REPOSITORY, its_repository=repository_id)

    async def _read(self, statement: Any, **its_own: object) -> tuple[Run, ...]:
        rows = await self._connection.execute(statement, its_own)
        return tuple(replace(run_of(row), base_branch=row.base_branch) for row in rows)


def run_of(row: Row[Any]) -> Run:
    """Read the run from a row with `run_id` and `RUN_FIELDS`."""
    if row.run_id is None:
        return NOT_BEGUN
    stored = row._mapping
    values = {name: value for name, label in _COLUMNS.items() if (value := stored[label]) is not None}
    values |= {name: adapter(kind).validate_python(values[name]) for name, kind in _READ.items() if name in values}
    lists = {name: tuple(value) for name, value in values.items() if isinstance(value, list)}
    return Run(row.run_id, **{**values, **lists})


def _values(run: Run) -> dict[str, Any]:
    values = {name: getattr(run, name) for name in _STORED}
    for name, kind in _READ.items():
        values[name] = adapter(kind).dump_python(values[name], mode="json", exclude_none=True)
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}


_REPOSITORIES: BindParameter[int] = bindparam("repositories", expanding=True)
_WAIT_FOR_CHECKS = (Reason.CHECKS_FAILED, Reason.CHECK_ABSENT, Reason.TESTED_ON_ANOTHER_BASE)
_UNDER_WAY = union_all(
    select(entries.c.repository_id, entries.c.head_sha, runs.c.candidate)
    .join(runs, runs.c.id == entries.c.run_id)
    .where(entries.c.repository_id.in_(_REPOSITORIES), OF_OWN_HEAD),
    select(queues.c.repository_id, runs.c.base_tip, runs.c.candidate)
    .join(queues, queues.c.id == runs.c.queue_id)
    .where(queues.c.repository_id.in_(_REPOSITORIES), runs.c.candidate.is_not(None)),
    select(entries.c.repository_id, entries.c.head_sha, entries.c.head_sha).where(
        entries.c.repository_id.in_(_REPOSITORIES),
        or_(*(cast(entries.c.unmet, String).contains(each.value, autoescape=True) for each in _WAIT_FOR_CHECKS)),
    ),
)


class CandidateCommits(TableStore):
    async def under_way(self, repository_ids: Collection[int]) -> tuple[tuple[int, str, str | None], ...]:
        """Return the tests under way in these repositories: repository, head (or base) and candidate.

        The head of an entry that waits for its own failed checks is a candidate, too.
        """
        rows = await self._connection.execute(_UNDER_WAY, {"repositories": list(repository_ids)})
        return tuple((row.repository_id, row.head_sha, row.candidate) for row in rows)
